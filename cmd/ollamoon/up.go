package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"ollamoon/internal/engine"
	"ollamoon/internal/standin"
	"ollamoon/internal/up"
)

func newUpCommand() *cobra.Command {
	o := up.Options{}
	var segment string
	var try bool
	cmd := &cobra.Command{
		Use:   "up [flags] [-- more arguments for every llama-server]",
		Short: "Run a whole cluster on this machine",
		Long: "Starts a Mooncake Store, prefill workers, decode workers and a router on this\n" +
			"machine, and says the one address at which to use them. What dies is started\n" +
			"again. Ctrl-C lets running requests finish and ends everything.\n\n" +
			"The threads of all engines together are as many as there are processors. With one\n" +
			"or two processors there are fewer workers, if their numbers are not given.",
		Example: "  ollamoon up -m model.gguf\n" +
			"  ollamoon up -m model.gguf --decode 3 --store file:/var/cache/pages -- -ngl 99",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return fmt.Errorf("%q is no flag; arguments for llama-server follow --", args[0])
			}
			if try && o.APIKeys != "" {
				return errors.New("--try asks without a key; leave --api-keys out")
			}
			bytes, err := humanize.ParseBytes(segment)
			if err != nil {
				return fmt.Errorf("--segment: %q is no size; as in --segment 2GiB", segment)
			}
			o.SegmentBytes, o.Args = int64(min(bytes, 1<<62)), args
			if err := completeUp(&o, cmd); err != nil {
				return err
			}
			return runUp(cmd, o, try)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.Model, "model", "m", "", "GGUF file (default: the small model that scripts/setup.sh installs)")
	flags.StringVar(&o.Binary, "llama-server", "", "the real llama-server\n(default: one beside this program or on PATH, else the one that scripts/setup.sh installs)")
	flags.IntVar(&o.Decode, "decode", up.Counted, "workers that answer (default: 2, or 1 with fewer than 3 threads)")
	flags.IntVar(&o.Prefill, "prefill", up.Counted, "workers that compute long prompts for them (default: 1, or 0 with 1 thread)")
	flags.IntVar(&o.Threads, "threads", 0, "threads of all engines together (default: the number of processors)")
	flags.IntVar(&o.Context, "ctx", 8192, "tokens of context of each worker; 0: the model's own")
	flags.StringVar(&o.Store, "store", up.Mooncake, "where pages are kept: mooncake starts one here; file:FOLDER; mooncake://MASTER:PORT")
	flags.StringVar(&segment, "segment", "1GiB", "memory of the Mooncake that is started")
	flags.StringVar(&o.Programs, "mooncake-dir", "", "folder of mooncake_master and mooncake_client inside the wheel's environment\n(default: as installed by scripts/setup.sh)")
	flags.StringVar(&o.SealKeyFile, "seal-key-file", "", "file of 64 hexadecimal digits: the key that seals pages in a store of another kind")
	flags.StringVar(&o.Host, "host", "127.0.0.1", "address at which the router listens")
	flags.IntVar(&o.Port, "port", 8080, "port at which the router listens; 0: a free one")
	flags.StringVar(&o.APIKeys, "api-keys", "", "file of API keys, lines \"TENANT KEY\" or \"KEY\" (default: no key is needed)")
	flags.StringVar(&o.LogDir, "log-dir", "", "folder for what the children print (default: one that is removed at the end)")
	flags.BoolVarP(&o.Verbose, "verbose", "v", false, "show what the children print, each line with the child's name")
	flags.BoolVar(&try, "try", false, "send two requests that begin alike, tell what came of them, and end")
	for _, name := range []string{"decode", "prefill", "threads"} {
		flags.Lookup(name).DefValue = "0" // is not shown: the help says it
	}
	choices := []string{up.Mooncake, "file:"}
	complete(cmd, "store", choices)
	like(cmd, "segment", "2GiB")
	like(cmd, "threads", "4")
	like(cmd, "decode", "2")
	like(cmd, "prefill", "1")
	return cmd
}

// completeUp fills in what is not given and depends on the machine.
func completeUp(o *up.Options, cmd *cobra.Command) (err error) {
	if o.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	cores := runtime.GOMAXPROCS(0)
	if !cmd.Flags().Changed("threads") {
		o.Threads = cores
	}
	if o.Threads > cores {
		return fmt.Errorf("--threads %d: this machine has %d processors, and threads beyond them wait for each other", o.Threads, cores)
	}
	for _, name := range []string{"decode", "prefill"} {
		if n, err := cmd.Flags().GetInt(name); err == nil && n < 0 && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s %d: a number of workers is not negative", name, n)
		}
	}
	installed, missing := engine.Find()
	if o.Model == "" {
		if missing != nil {
			return fmt.Errorf("no model; name a GGUF file, as in -m model.gguf (%w)", missing)
		}
		o.Model = installed.Model
		if o.Binary == "" {
			o.Binary = installed.Binary // the two are made for each other
		}
	}
	binary, err := standin.FindBinary(o.Binary, os.Args[0], os.Getenv("PATH"))
	if err != nil && o.Binary == "" && missing == nil {
		binary, err = installed.Binary, nil
	}
	if err != nil {
		return fmt.Errorf("%w; as in --llama-server /usr/local/bin/llama-server", err)
	}
	o.Binary = binary
	return nil
}

// runUp runs a cluster until it is interrupted, or tried.
func runUp(cmd *cobra.Command, o up.Options, try bool) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
	defer stop()
	hurry, again := interruptedAgain(ctx)
	defer again()
	out := cmd.OutOrStdout()
	err := up.Run(ctx, hurry, o, cmd.ErrOrStderr(), func(ctx context.Context, r up.Running) error {
		if !try {
			if err := sayUp(out, r); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}
		tried, err := r.Try(ctx)
		if err != nil {
			return err
		}
		return tried.Write(out)
	})
	if errors.Is(err, context.Canceled) && cmd.Context().Err() != nil {
		return errors.New("interrupted before it was ready")
	}
	return err
}

// interruptedAgain returns a context that is done with the first signal to end
// after ctx is done.
func interruptedAgain(ctx context.Context) (hurry context.Context, stop func()) {
	hurry, hurryUp := context.WithCancel(context.WithoutCancel(ctx))
	signals := make(chan os.Signal, 1)
	over := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case <-ctx.Done():
		case <-hurry.Done():
			return
		}
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer signal.Stop(signals)
		select {
		case <-signals:
			hurryUp()
		case <-hurry.Done():
		}
	}()
	return hurry, func() {
		hurryUp()
		<-over
	}
}

// sayUp tells how to use a cluster.
func sayUp(w io.Writer, r up.Running) error {
	client, admin := "", ""
	if r.AdminFile != "" {
		client, admin = ` -H "Authorization: Bearer YOUR_KEY"`, fmt.Sprintf(` -H "Authorization: Bearer $(cat %s)"`, r.AdminFile)
	}
	text := fmt.Sprintf("\nready: %s\n\ntry it:\n  curl%s %s/v1/chat/completions -d '{\"messages\":[{\"role\":\"user\",\"content\":\"Name three fruits.\"}]}'\n"+
		"look at it:\n  curl%s %s/ollamoon/status   the router: its workers, and what runs on them\n",
		r.URL, client, r.URL, admin, r.URL)
	for _, c := range r.Children {
		if c.Kind != up.KindRouter {
			text += fmt.Sprintf("  curl %s/ollamoon/status   %s: what it shares\n", c.URL(), c.Name)
		}
	}
	text += fmt.Sprintf("logs: %s\nCtrl-C ends all of it.\n", r.LogDir)
	_, err := io.WriteString(w, text)
	return err
}
