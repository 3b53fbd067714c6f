package connector_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/mooncake"
	"ollamoon/store"
	storemooncake "ollamoon/store/mooncake"
)

// A master that cannot be reached, or takes connections and does not answer, is
// an error of the kind that a worker goes on without, soon.
func TestMasterNotThere(t *testing.T) {
	leakless(t)
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for what, address := range map[string]string{"nobody listens": "127.0.0.1:1", "nobody answers": silent.Addr().String()} {
		config := mooncake.Config{Master: address, Metadata: "P2PHANDSHAKE", CallTimeout: time.Second}
		bounded(t, what, func() {
			if _, err := storemooncake.Open(within(t), config); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("%s: %v", what, err)
			}
		})
		config.CallTimeout = patience
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		bounded(t, what, func() {
			_, err := storemooncake.Open(ctx, config)
			if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s, within a deadline: %v", what, err)
			}
		})
		cancel()
	}
}

// A master that hangs costs what the caller's context allows, or the client's own
// limit, and the next call after it goes on is served.
func TestMasterHangs(t *testing.T) {
	c := steady.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w := join(t, c, plane, func(config *mooncake.Config) { config.CallTimeout, config.StallTimeout = time.Second, time.Second })
		p := newPrompt(3)
		w.mustPublish(t, p, 3)
		thaw := freeze(t, c.MasterPID())
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		bounded(t, "loading within a deadline", func() {
			if match, err := w.load(ctx, t, p); match.Pages != 0 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("loaded %+v, %v", match, err)
			}
		})
		bounded(t, "loading", func() {
			if match, err := w.load(within(t), t, p); match.Pages != 0 || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("loaded %+v, %v", match, err)
			}
		})
		bounded(t, "publishing", func() {
			if stored, err := w.publish(within(t), t, newPrompt(3)); stored != 0 || !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("stored %d, %v", stored, err)
			}
		})
		thaw()
		w.mustLoad(t, p, 3)
		if s := w.Stats(); s.PagesLookedUp != 3 || s.PagesHit != 3 {
			t.Errorf("stats %+v: only loads that learnt something count", s)
		}
		w.counted(t, nil, 0)
	})
}

// runCounts are of a worker that publishes and loads one prompt after the other.
type runCounts struct{ good, failed atomic.Int64 }

func (n *runCounts) round(t *testing.T, w *worker) error {
	p := newPrompt(4)
	var stored int
	var err error
	bounded(t, "publishing", func() { stored, err = w.publish(within(t), t, p) })
	if err == nil && stored == 4 {
		bounded(t, "loading", func() { _, err = w.load(within(t), t, p) })
	}
	switch {
	case err == nil:
		n.good.Add(1)
	case errors.Is(err, store.ErrUnavailable):
		n.failed.Add(1)
		time.Sleep(20 * time.Millisecond)
	case errors.Is(err, store.ErrFull): // no owner has mounted its memory yet
		time.Sleep(20 * time.Millisecond)
	default:
		t.Errorf("a round ends with %v", err)
	}
	return err
}

// The master goes while workers load and publish, and comes back empty: all of
// them get errors of one kind while it is away, none hangs, and all go on with
// the clients that they have.
func TestMasterGoneMidRun(t *testing.T) {
	c := fragile.start(t)
	leakless(t)
	var killed, stopped atomic.Bool
	var all sync.WaitGroup
	var rounds [4]runCounts
	for i := range rounds {
		w := join(t, c, planes[i%len(planes)])
		all.Go(func() {
			for !stopped.Load() {
				if err := rounds[i].round(t, w); err != nil && !killed.Load() {
					t.Errorf("worker %d, while the master is there: %v", i, err)
				}
			}
		})
	}
	grow := func(what string, count func(*runCounts) int64) {
		var before [len(rounds)]int64
		for i := range rounds {
			before[i] = count(&rounds[i])
		}
		await(t, what, func() bool {
			for i := range rounds {
				if count(&rounds[i]) < before[i]+2 {
					return false
				}
			}
			return true
		})
	}
	good := func(n *runCounts) int64 { return n.good.Load() }
	grow("rounds with a master", good)
	killed.Store(true)
	c.KillMaster()
	grow("failures without one", func(n *runCounts) int64 { return n.failed.Load() })
	if err := c.StartMaster(within(t)); err != nil {
		t.Fatal(err)
	}
	grow("rounds with another one", good)
	stopped.Store(true)
	all.Wait()
}
