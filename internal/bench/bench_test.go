package bench

import (
	"context"
	"errors"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"ollamoon/internal/cluster"
	"ollamoon/internal/results"
	"ollamoon/internal/standin"
	"ollamoon/internal/supervise"
)

// The test binary is also the processes that a run starts.
const (
	roleContender = "bench-contender"
	roleSender    = "bench-sender"
	roleWorker    = "bench-worker"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleWorker {
		standin.Run(context.Background(), os.Args[0], os.Args[2:], os.Environ()).Now()
	}
	if len(os.Args) > 1 && (os.Args[1] == roleContender || os.Args[1] == roleSender) {
		if err := play(context.Background(), os.Args[1], os.Args[2:]); err != nil {
			println(err.Error())
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func play(ctx context.Context, role string, args []string) error {
	if role == roleContender {
		return Serve(ctx, args[0])
	}
	pages, errPages := strconv.Atoi(args[1])
	size, errSize := strconv.Atoi(args[2])
	if err := errors.Join(errPages, errSize); err != nil {
		return err
	}
	return Send(ctx, args[0], pages, size)
}

func self(t *testing.T, role string) supervise.Command {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return supervise.Command{Path: program, Args: []string{role}}
}

func options(t *testing.T) Options {
	return Options{
		Iterations: 2, Rounds: 2, Metadata: cluster.MetadataHTTP, Seal: Checksum, SegmentBytes: 512 << 20,
		Contender: self(t, roleContender), Sender: self(t, roleSender),
		Version: "test", Command: "go test", Progress: NewProgress(nil),
	}
}

// A whole run on a real store: its file follows the schema, reads back, and has
// every figure.
func TestRun(t *testing.T) {
	got, err := Run(t.Context(), options(t))
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/results.json"
	if err := got.Write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := results.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		name string
		results.Scenario
		pages, hit, pageBytes, loads int
	}{
		// Each plane loads hit pages once a timed reload and warm-up, then all.
		{"realistic", f.Realistic, 8, 7, 14680064, 2 * (4*7 + 8)},
		{"tiny", f.Tiny, 4, 3, 4096, 2 * (3 + 4)},
	} {
		if s.Pages != s.pages || s.PagesHit != s.hit || s.TokensSkipped != s.hit*s.Layout.PageTokens ||
			s.Published != s.pages || s.BPublished != 1 || s.PageBytes != s.pageBytes || s.ObjectBytes != s.pageBytes+80 {
			t.Errorf("%s: %+v", s.name, s.Scenario)
		}
		if want := int64(s.loads) * int64(s.pageBytes); !s.Verified || s.VerifiedBytes != want {
			t.Errorf("%s: verified %v, %d bytes, want %d", s.name, s.Verified, s.VerifiedBytes, want)
		}
	}
	const publish, reload = 8 * 14680064, 7 * 14680064
	for name, m := range map[string]results.Measurement{
		oursTCP: f.Transfer.TCP, oursShared: f.Transfer.SharedMemory, python: f.Peer.PythonClient,
	} {
		if m.PublishBytes != publish || m.ReloadBytes != reload || m.Iterations != 2 || len(m.PublishRoundsMBs) != 2 || !m.Verified {
			t.Errorf("%s: %+v", name, m)
		}
		if m.PublishMBs <= 0 || m.ReloadMBs <= 0 || m.HeldBytes <= 0 {
			t.Errorf("%s lacks a figure: %+v", name, m)
		}
		// What the interface carries besides is not ours to say: other programs use it.
		if overTCP := name != oursShared; overTCP && m.LoopbackBytes < 2*reload {
			t.Errorf("%s: loopback carried %d bytes, two reloads have %d", name, m.LoopbackBytes, 2*reload)
		}
	}
	if l := f.Limit; l.LoopbackTCPMBs <= 0 || l.MemcpyMBs <= 0 || l.ChecksumMBs <= 0 || l.MACMBs <= 0 {
		t.Errorf("limits %+v", l)
	}
	for _, part := range []string{"ollamoon", "go", "mooncake", "mooncake_wire", "python"} {
		if f.Versions[part] == "" {
			t.Errorf("no version of %s", part)
		}
	}
}

func TestRunRefusesBadOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"seal":          func(o *Options) { o.Seal = "wax" },
		"iterations":    func(o *Options) { o.Iterations = 0 },
		"rounds":        func(o *Options) { o.Rounds = -1 },
		"small segment": func(o *Options) { o.SegmentBytes = 256 << 20 },
		"no room for a model": func(o *Options) {
			o.SegmentBytes, o.Engine = 460<<20, &EngineOptions{Tokens: 600, Shared: 512}
		},
		"pages that are not whole": func(o *Options) { o.Engine = &EngineOptions{Tokens: 600, Shared: 500} },
		"nothing to compute":       func(o *Options) { o.Engine = &EngineOptions{Tokens: 512, Shared: 512} },
	} {
		o := options(t)
		change(&o)
		if _, err := Run(t.Context(), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A run that is interrupted ends soon, with the reason and nothing left behind
// (goleak looks).
func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	o := options(t)
	o.Iterations = 1000
	o.Progress = NewProgress(writerFunc(func(p []byte) (int, error) {
		cancel() // at the first line, when the store runs
		return len(p), nil
	}))
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
