package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ollamoon/internal/supervise"
)

// A hand is a clock that moves when someone sleeps, and notes how long.
type hand struct {
	mu     sync.Mutex
	time   time.Time
	sleeps []time.Duration
	// asleep, if not nil, is called before each sleep.
	asleep func(n int)
}

func (h *hand) clock() clock {
	return clock{
		now: func() time.Time {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.time
		},
		sleep: func(ctx context.Context, d time.Duration) error {
			h.mu.Lock()
			h.time = h.time.Add(d)
			h.sleeps = append(h.sleeps, d)
			n := len(h.sleeps)
			h.mu.Unlock()
			if h.asleep != nil {
				h.asleep(n)
			}
			return ctx.Err()
		},
	}
}

func (h *hand) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.time = h.time.Add(d)
}

// said is what a keeper has said.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) say(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *said) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// shell starts a script; the test's end kills it.
func shell(t *testing.T, script string) *supervise.Process {
	t.Helper()
	p, err := supervise.Start(supervise.Command{Path: "/bin/sh", Args: []string{"-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

const lasting = "exec sleep 300"

var quick = patience{first: time.Second, most: 5 * time.Second, deaths: 6, steady: time.Minute}

// What keeps dying is started after pauses that double up to the longest, and
// given up with what it said last.
func TestGivenUp(t *testing.T) {
	h, s := &hand{}, &said{}
	starts := 0
	p := &part{name: "decode-1", process: shell(t, "echo dying; exit 3"), start: func(context.Context) (*supervise.Process, error) {
		starts++
		return shell(t, "echo no memory >&2; exit 3"), nil
	}}
	err := keeper{quick, h.clock(), s.say}.keep(t.Context(), p)
	if !errors.Is(err, ErrGivenUp) || !errors.Is(err, supervise.ErrExited) || starts != 5 {
		t.Errorf("%v after %d starts", err, starts)
	}
	for _, want := range []string{"decode-1", "6 deaths", "exit status 3", "no memory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	want := []time.Duration{1, 2, 4, 5, 5}
	for i := range want {
		if i >= len(h.sleeps) || h.sleeps[i] != want[i]*time.Second {
			t.Fatalf("pauses %v, want %v seconds", h.sleeps, want)
		}
	}
	if all := s.all(); !strings.Contains(all, "decode-1 has ended and is started again in 1s: supervise: process exited: exit status 3; its last output:\n  dying") ||
		strings.Count(all, "decode-1 runs again") != 5 {
		t.Error(all)
	}
}

// A start that fails is a death too; what has run for long begins a new row.
func TestDeathsInARow(t *testing.T) {
	h, s := &hand{}, &said{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &part{name: "x", process: shell(t, "exit 1")}
	started := make(chan *supervise.Process, 1)
	starts := 0
	p.start = func(context.Context) (*supervise.Process, error) {
		if starts++; starts%3 != 0 {
			return nil, errors.New("the port is taken")
		}
		process := shell(t, lasting)
		started <- process
		return process, nil
	}
	kept := make(chan error, 1)
	go func() { kept <- keeper{quick, h.clock(), s.say}.keep(ctx, p) }()
	const lives = 4
	for life := 1; life <= lives; life++ {
		process := <-started
		eventually(t, s, "x runs again", life)
		if life < lives {
			h.pass(quick.steady)
			process.Kill()
		}
	}
	cancel()
	if err := <-kept; err != nil {
		t.Error(err)
	}
	if want := slices.Repeat([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, lives); !slices.Equal(h.sleeps, want) {
		t.Errorf("pauses %v, want %v", h.sleeps, want)
	}
	if all := s.all(); strings.Count(all, "the port is taken") != 2*lives {
		t.Error(all)
	}
}

// eventually waits until something has been said so often.
func eventually(t *testing.T, s *said, what string, times int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); strings.Count(s.all(), what) < times; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%q is not said %d times:\n%s", what, times, s.all())
		}
	}
}

// The end comes while a child runs, while its next start is waited for, and while
// it starts.
func TestKeepEnds(t *testing.T) {
	for name, when := range map[string]struct{ dies, pausing, starting bool }{
		"running": {}, "pausing": {dies: true, pausing: true}, "starting": {dies: true, starting: true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			h, s := &hand{}, &said{}
			if when.pausing {
				h.asleep = func(int) { cancel() }
			}
			script := lasting
			if when.dies {
				script = "exit 1"
			}
			var next *supervise.Process
			p := &part{name: "x", process: shell(t, script), start: func(context.Context) (*supervise.Process, error) {
				next = shell(t, lasting)
				if when.starting {
					cancel()
				}
				return next, nil
			}}
			if !when.dies {
				cancel()
			}
			if err := (keeper{quick, h.clock(), s.say}).keep(ctx, p); err != nil {
				t.Error(err)
			}
			if (next != nil) != when.starting || next != nil && p.process != next {
				t.Errorf("started %v, kept %v", next, p.process)
			}
		})
	}
}

// The cluster goes on as long as something answers.
func TestLosses(t *testing.T) {
	l := losses{left: map[Kind]int{KindStore: 2, KindPrefill: 1, KindDecode: 2, KindRouter: 1}}
	for i, lost := range []struct {
		kind  Kind
		fatal bool
	}{{KindStore, false}, {KindPrefill, false}, {KindDecode, false}, {KindStore, false}, {KindDecode, true}, {KindRouter, true}} {
		if l.fatal(lost.kind) != lost.fatal {
			t.Errorf("loss %d, of %s: fatal is %t", i, lost.kind, !lost.fatal)
		}
	}
}

// A cluster whose prefill worker is given up goes on; one whose router is ends,
// and with it what uses it.
func TestClusterGoesOnOrEnds(t *testing.T) {
	s := &said{}
	dying := func(kind Kind) *part {
		return &part{name: string(kind), kind: kind, process: shell(t, "exit 1"), start: func(context.Context) (*supervise.Process, error) {
			return shell(t, "exit 1"), nil
		}}
	}
	session := session{err: saidWriter{s}, keeper: keeper{patience{deaths: 3, steady: time.Hour}, new(hand).clock(), s.say}}
	session.parts = []*part{dying(KindPrefill), {name: "decode-1", kind: KindDecode, process: shell(t, lasting)}}
	err := session.keep(t.Context(), func(ctx context.Context) error {
		eventually(t, s, "the cluster goes on without it", 1)
		return ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
	session.parts = []*part{dying(KindRouter), session.parts[1]}
	err = session.keep(t.Context(), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	if !errors.Is(err, ErrGivenUp) || !strings.Contains(err.Error(), "router, after 3 deaths") {
		t.Error(err)
	}
	session.stop(t.Context())
	if session.parts[1].process.Err() == nil {
		t.Error("it still runs")
	}
}

// A saidWriter is said as a writer.
type saidWriter struct{ *said }

func (w saidWriter) Write(b []byte) (int, error) {
	w.say("%s", b)
	return len(b), nil
}
