package routing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/router"
	"ollamoon/internal/supervise"
)

// roleVariable makes the test binary act as a router or as a worker.
const roleVariable = "ROUTING_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := play(ctx, role, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(ctx context.Context, role string, args []string) error {
	if role == "worker" {
		port, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		return Work(ctx, port)
	}
	spec, err := router.ParseSpec(args[2])
	if err != nil {
		return err
	}
	rt, err := router.New(ctx, router.NewConfig(router.Llama, spec))
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:"+args[1])
	if err != nil {
		return err
	}
	return rt.Serve(ctx, l, time.Second)
}

func options(t *testing.T) Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	as := func(role string) supervise.Command {
		return supervise.Command{Path: self, Env: []string{roleVariable + "=" + role}}
	}
	return Options{Router: as("router"), Worker: as("worker"), Rounds: 3, Pairs: 10, Tokens: 600, Streams: 20}
}

func TestRun(t *testing.T) {
	result, err := Run(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []Latency{result.Quiet, result.Beside} {
		if l.Direct.P50 <= 0 || l.Routed.P50 <= 0 || l.Direct.P99 < l.Direct.P50 || l.Routed.P99 < l.Routed.P50 {
			t.Errorf("%+v", l)
		}
	}
	if _, err := os.Stat("/proc/self/status"); err == nil && (result.HeldBytes < 1<<20 || result.PeakBytes < result.HeldBytes) {
		t.Errorf("%+v", result)
	}
	path := filepath.Join(t.TempDir(), "result.json")
	if err := result.Write(path); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || !bytes.Contains(data, []byte(`"idle_streams": 20`)) {
		t.Errorf("%s, %v", data, err)
	}
}

func TestRunFails(t *testing.T) {
	o := options(t)
	o.Streams = 0
	if _, err := Run(t.Context(), o); !errors.Is(err, ErrOptions) {
		t.Error(err)
	}
	o = options(t)
	o.Router.Env = append(o.Router.Env, roleVariable+"=worker") // it serves nothing at the port
	if _, err := Run(t.Context(), o); !errors.Is(err, supervise.ErrExited) {
		t.Error(err)
	}
}

func TestGoals(t *testing.T) {
	r := &Result{
		Streams: GoalStreams, HeldBytes: 99 << 20,
		Quiet:  Latency{Routed: Quantiles{P50: 0.3}, Added: Quantiles{P99: 0.99}},
		Beside: Latency{Routed: Quantiles{P50: 0.3}, Added: Quantiles{P99: 1}},
	}
	for i, want := range []bool{true, false, true} {
		if g := Goals(r)[i]; g.Met != want {
			t.Errorf("%+v, want met %v", g, want)
		}
	}
	for _, g := range Goals(&Result{}) {
		if g.Met {
			t.Errorf("met without a figure: %+v", g)
		}
	}
	var out bytes.Buffer
	if err := Summarize(&out, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"0.990", "99.0 with 1000 idle streams", "MISSED", "99.0 MiB"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, out.String())
		}
	}
}

func TestQuantiles(t *testing.T) {
	var times []float64
	for i := range 100 {
		times = append(times, float64(100-i))
	}
	if q := quantiles(times); q.P50 != 51 || q.P99 != 100 {
		t.Errorf("%+v", q)
	}
	if q := quantiles([]float64{7}); q.P50 != 7 || q.P99 != 7 {
		t.Errorf("%+v", q)
	}
}
