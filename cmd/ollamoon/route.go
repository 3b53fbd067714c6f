package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ollamoon/internal/router"
	"ollamoon/internal/router/policy"
	"ollamoon/internal/trust"
)

// routeOptions are the flags of route that are not the router's settings as they
// are.
type routeOptions struct {
	surface, host, policy                       string
	port                                        int
	drain                                       time.Duration
	maxBodyMiB                                  int64
	apiKeys, adminToken, secret, workerKey, log string
}

func newRouteCommand() *cobra.Command {
	c := router.NewConfig(router.Llama)
	var o routeOptions
	var names []string
	for _, p := range policy.All(policy.DefaultCosts) {
		names = append(names, p.Name())
	}
	cmd := &cobra.Command{
		Use:   "route [NAME=]URL...",
		Short: "One endpoint over several llama-servers, or Ollama servers",
		Long: "Serves what a llama-server or, with --surface ollama, an Ollama server serves, and\n" +
			"has the workers at the URLs answer: each request goes to the one that is expected\n" +
			"to complete it first, and a conversation stays with its worker while that is\n" +
			"cheap. Workers that fail are taken out until they answer again. SIGTERM and\n" +
			"Ctrl-C let running requests finish.",
		Example: "  ollamoon route http://127.0.0.1:8081 http://127.0.0.1:8082\n" +
			"  ollamoon route --surface ollama --port 11434 a=http://10.0.0.1:11434 b=http://10.0.0.2:11434",
		RunE: func(cmd *cobra.Command, args []string) error { return route(cmd, c, o, args) },
	}
	flags := cmd.Flags()
	choiceVar(cmd, &o.surface, "surface", "whose endpoints the workers and this serve", string(router.Llama), string(router.Ollama))
	flags.StringVar(&o.host, "host", "127.0.0.1", "address to listen on")
	flags.IntVar(&o.port, "port", 8080, "port to listen on; 0 is any that is free")
	choiceVar(cmd, &o.policy, "policy", "how a worker is chosen", names...)
	flags.IntVar(&c.Slots, "slots", c.Slots, "requests at the same time on a worker that does not say how many slots it has")
	flags.IntVar(&c.Queue, "queue", c.Queue, "requests that wait at most; more are answered with 503")
	flags.DurationVar(&c.QueueWait, "queue-wait", c.QueueWait, "time that a request waits at most")
	flags.Int64Var(&o.maxBodyMiB, "max-body-mib", c.MaxBody>>20, "size of a request at most, in MiB")
	flags.DurationVar(&c.BodyWait, "body-wait", c.BodyWait, "time in which a request's body must come")
	flags.DurationVar(&c.Stall, "stall", c.Stall, "time after which a client is given up that takes nothing of its answer")
	flags.DurationVar(&c.Interval, "health-interval", c.Interval, "time between health checks of a worker")
	flags.DurationVar(&c.Timeout, "health-timeout", c.Timeout, "time that a worker has to answer one, or to take a connection")
	flags.IntVar(&c.Fall, "health-fall", c.Fall, "health checks in a row that a worker must fail to be taken out")
	flags.DurationVar(&o.drain, "drain", 30*time.Second, "time that running requests have to finish at the end")
	flags.StringVar(&o.apiKeys, "api-keys", "", "file of API keys, lines \"TENANT KEY\" or \"KEY\" (default: no key is needed)")
	flags.StringVar(&o.adminToken, "admin-token-file", "", "file with the token for adding and removing workers, and\nfor the status where there are API keys")
	flags.StringVar(&o.secret, "secret-file", "", "file with the secret by which this and the workers know each other")
	flags.StringVar(&o.workerKey, "worker-key-file", "", "file with the API key that the workers ask for")
	choiceVar(cmd, &o.log, "log-level", "least level that is logged", "info", "debug", "warn", "error")
	return cmd
}

// ballast is memory that is never touched, and so never resident. The collector
// counts it and runs at most once for every half of it that is allocated: with the
// little that a router holds it would run for every hundred requests, and make as
// many clients wait.
const ballast = 32 << 20

// steady has the collector run seldom while the heap is small. The caller calls
// what it returns at the end.
func steady() func() {
	debug.SetGCPercent(50) // of heap and ballast
	held := make([]byte, ballast)
	return func() { runtime.KeepAlive(held) }
}

func route(cmd *cobra.Command, c router.Config, o routeOptions, args []string) error {
	c.Surface, c.Policy, c.MaxBody = router.Surface(o.surface), o.policy, o.maxBodyMiB<<20
	if err := o.apply(&c); err != nil {
		return err
	}
	for _, arg := range args {
		spec, err := router.ParseSpec(arg)
		if err != nil {
			return err
		}
		c.Workers = append(c.Workers, spec)
	}
	if len(args) == 0 && c.AdminToken == "" {
		return errors.New("no workers; name their URLs, or add them later with --admin-token-file")
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.log)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	c.Logger = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	defer steady()()
	ctx := cmd.Context()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(o.host, strconv.Itoa(o.port)))
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	rt, err := router.New(ctx, c)
	if err != nil {
		_ = listener.Close() // nobody has been served
		return err
	}
	if ip := listener.Addr().(*net.TCPAddr).IP; !ip.IsLoopback() && c.Keys == nil {
		c.Logger.Warn("whoever reaches this address can use the workers; --api-keys asks for keys", "address", listener.Addr())
	}
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	return rt.Serve(ctx, listener, o.drain)
}

// apply reads the files that the flags name.
func (o routeOptions) apply(c *router.Config) (err error) {
	if o.apiKeys != "" {
		if c.Keys, err = router.ReadKeys(o.apiKeys); err != nil {
			return err
		}
	}
	if o.secret != "" {
		if c.Secret, err = trust.ReadSecret(o.secret); err != nil {
			return err
		}
	}
	if o.adminToken != "" {
		if c.AdminToken, err = readToken(o.adminToken); err != nil {
			return err
		}
	}
	if o.workerKey != "" {
		c.WorkerKey, err = readToken(o.workerKey)
	}
	return err
}

func readToken(path string) (string, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return "", fmt.Errorf("reading a token: %w", err)
	}
	token := string(bytes.TrimSpace(data))
	if token == "" {
		return "", fmt.Errorf("reading a token: %s is empty", path)
	}
	return token, nil
}
