package connector_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
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

// The master goes while workers load and publish, and comes back empty: all of
// them get errors of one kind while it is away, none hangs, and all go on with
// the clients that they have.
func TestMasterGoneMidRun(t *testing.T) {
	c := fragile.start(t)
	leakless(t)
	var down atomic.Bool
	var stopped atomic.Bool
	var all sync.WaitGroup
	var rounds [4]struct{ good, failed atomic.Int64 }
	for i := range rounds {
		w := join(t, c, planes[i%2])
		all.Go(func() {
			for !stopped.Load() {
				p := newPrompt(4)
				var stored int
				var err error
				bounded(t, "publishing", func() { stored, err = w.publish(within(t), t, p) })
				if err == nil && stored == 4 {
					bounded(t, "loading", func() { _, err = w.load(within(t), t, p) })
				}
				switch {
				case err == nil:
					rounds[i].good.Add(1)
				case errors.Is(err, store.ErrUnavailable):
					rounds[i].failed.Add(1)
					time.Sleep(20 * time.Millisecond)
				case errors.Is(err, store.ErrFull): // no owner has mounted its memory yet
					time.Sleep(20 * time.Millisecond)
				default:
					t.Errorf("worker %d: %v", i, err)
				}
				if err != nil && !errors.Is(err, store.ErrFull) && !down.Load() {
					t.Errorf("worker %d, while the master is there: %v", i, err)
				}
			}
		})
	}
	grown := func(what string, count func(i int) int64) {
		var before [len(rounds)]int64
		for i := range before {
			before[i] = count(i)
		}
		await(t, what, func() bool {
			for i := range before {
				if count(i) < before[i]+2 {
					return false
				}
			}
			return true
		})
	}
	good := func(i int) int64 { return rounds[i].good.Load() }
	grown("rounds with a master", good)
	down.Store(true)
	c.KillMaster()
	grown("failures without one", func(i int) int64 { return rounds[i].failed.Load() })
	if err := c.StartMaster(within(t)); err != nil {
		t.Fatal(err)
	}
	grown("rounds with another one", good)
	stopped.Store(true)
	all.Wait()
}

// An owner that is killed leaves objects that are said to exist. They are read
// in vain, soon, condemned by nothing, and with another owner the same clients
// share pages again.
func TestOwnerKilled(t *testing.T) {
	c := fragile.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		settled(t, c)
		leakless(t)
		w, other := join(t, c, plane), join(t, c, plane)
		p := newPrompt(5)
		w.mustPublish(t, p, 5)
		other.mustLoad(t, p, 5)
		c.KillOwner()
		there, err := w.store.BatchExist(within(t), w.keys(t, p))
		if err != nil || slices.Contains(there, false) {
			t.Fatalf("the objects exist: %v, %v", there, err)
		}
		bounded(t, "loading", func() {
			if match := other.mustLoad(t, p, 0); !errors.Is(match.Stopped, store.ErrUnavailable) {
				t.Errorf("stopped by %v", match.Stopped)
			}
		})
		bounded(t, "publishing", func() {
			stored, err := w.publish(within(t), t, newPrompt(5))
			if stored != 0 || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull) {
				t.Errorf("stored %d, %v", stored, err)
			}
		})
		w.counted(t, nil, 0)
		other.counted(t, nil, 0)
		if err := c.StartOwner(within(t)); err != nil {
			t.Fatal(err)
		}
		// Until the master has found the dead owner out, pages still go there.
		p = newPrompt(5)
		await(t, "the new owner to be used", func() bool {
			_, err := w.publish(within(t), t, p)
			return err == nil
		})
		other.mustLoad(t, p, 5)
		if s := other.Stats(); s.PagesLookedUp != 15 || s.PagesHit != 10 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A store in which everything is in use takes no more; when something is not any
// longer, it does, the refused pages too.
func TestStoreFull(t *testing.T) {
	c := tight.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w := join(t, c, plane)
		var keys []string
		fill := func(p prompt) error { // everything that is there has a lease then
			keys = append(keys, w.keys(t, p)...)
			stored, err := w.publish(within(t), t, p)
			if err != nil && (stored == 16 || !errors.Is(err, store.ErrFull)) {
				t.Fatalf("after %d pages: stored %d, %v", len(keys), stored, err)
			}
			if _, err := w.store.BatchExist(within(t), keys); err != nil {
				t.Fatal(err)
			}
			return err
		}
		var refused prompt
		for refusals := 0; refusals < 5; {
			refused = newPrompt(16)
			for refusals = 0; fill(refused) != nil && refusals < 5; refusals++ {
				time.Sleep(50 * time.Millisecond) // for what had no lease yet to be evicted
			}
			if len(keys) > 1<<14 {
				t.Fatalf("%d pages were taken", len(keys))
			}
		}
		w.publishWhenThereIsRoom(t, refused)
		w.mustLoad(t, refused, 16)
		w.counted(t, nil, 0)
	})
}

// A writer dies between the start of a put and its end. Who publishes the same
// pages does not fail, nobody reads them, and when the master gives up on the
// writer they can be published.
func TestWriterKilled(t *testing.T) {
	c := tight.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w := join(t, c, plane)
		p := newPrompt(3)
		keys := w.keys(t, p)
		thaw := freeze(t, c.OwnerPID()) // which holds the writer's data up
		kill := startWriter(t, c, p)
		await(t, "the writer to begin", func() bool {
			known, err := w.client.BatchQuery(within(t), keys)
			return err == nil && errors.Is(known[2].Err, mooncake.ErrNotReady)
		})
		kill()
		thaw()
		if match := w.mustLoad(t, p, 0); !errors.Is(match.Stopped, store.ErrNotFound) {
			t.Errorf("stopped by %v", match.Stopped)
		}
		for i, err := range w.store.BatchPut(within(t), []store.Item{{Key: keys[0], Bytes: make([]byte, w.ObjectBytes())}}) {
			if err != nil && !errors.Is(err, store.ErrExists) || err == nil && plane == "tcp" {
				t.Errorf("putting object %d: %v", i, err)
			}
		}
		bounded(t, "publishing", func() {
			if stored, err := w.publish(within(t), t, p); err != nil || stored != 0 && plane == "tcp" {
				t.Errorf("stored %d, %v", stored, err)
			}
		})
		await(t, "the pages to be published", func() bool {
			if _, err := w.publish(within(t), t, p); err != nil {
				t.Error(err)
			}
			match, err := w.load(within(t), t, p)
			return err == nil && match.Pages == 3
		})
		w.counted(t, nil, 0)
	})
}

// evict outlasts the leases and fills the store twice.
func evict(t *testing.T, w *worker) error {
	time.Sleep(tightLease + tightLease/4)
	end := time.Now().Add(patience)
	for filled := 0; filled < 128; {
		_, err := w.publish(within(t), t, newPrompt(16))
		switch {
		case err == nil:
			filled++
		case !errors.Is(err, store.ErrFull) || time.Now().After(end):
			return fmt.Errorf("filling the store: %w", err)
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// A page that is evicted after the lookup, or while pages before it are read, is
// a miss.
func TestEvictedBetweenLookupAndRead(t *testing.T) {
	c := tight.start(t)
	for _, plane := range planes {
		t.Run("before the read, "+plane, func(t *testing.T) {
			leakless(t)
			w, others := join(t, c, plane), join(t, c, plane)
			p := newPrompt(4)
			w.publishWhenThereIsRoom(t, p)
			w.cues.beforeRead = func() error { return evict(t, others) }
			match := w.mustLoad(t, p, 0)
			w.cues.played(t)
			if !errors.Is(match.Stopped, store.ErrNotFound) {
				t.Errorf("stopped by %v", match.Stopped)
			}
			w.counted(t, nil, 0)
		})
	}
	t.Run("during the read", func(t *testing.T) {
		leakless(t)
		w, others := join(t, c, "tcp"), join(t, c, "tcp")
		p := newPrompt(4)
		w.publishWhenThereIsRoom(t, p)
		w.cues.afterFirst = func() error { return evict(t, others) }
		match := w.mustLoad(t, p, 1)
		w.cues.played(t)
		if !errors.Is(match.Stopped, store.ErrNotFound) {
			t.Errorf("stopped by %v", match.Stopped)
		}
		if n := w.client.Stats().Renewed; n != 3 {
			t.Errorf("%d descriptors renewed, want 3", n)
		}
		w.counted(t, nil, 0)
	})
}

// reuse publishes prompts until one of their objects is at a place.
func reuse(t *testing.T, w *worker, at place) (prompt, error) {
	for range 100 {
		p := newPrompt(16)
		if _, err := w.publish(within(t), t, p); err != nil {
			return nil, err
		}
		for _, key := range w.keys(t, p) {
			got, err := placeOf(within(t), w.client, key)
			if err != nil {
				return nil, err
			}
			if got == at {
				return p, nil
			}
		}
	}
	return nil, fmt.Errorf("no object came to %+v", at)
}

// A page is removed while its descriptor is held, and its memory given to
// another page: the seal tells them apart, and the other page is not condemned.
func TestRemovedAndItsMemoryReused(t *testing.T) {
	c := steady.start(t)
	leakless(t)
	w, other := join(t, c, "tcp"), join(t, c, "tcp")
	p := newPrompt(3)
	w.mustPublish(t, p, 3)
	var tenant prompt
	w.cues.afterFirst = func() error {
		key := w.keys(t, p)[1]
		at, err := placeOf(within(t), other.client, key)
		if err != nil {
			return err
		}
		if err := other.store.Discard(within(t), key); err != nil {
			return err
		}
		tenant, err = reuse(t, other, at)
		return err
	}
	match := w.mustLoad(t, p, 1)
	w.cues.played(t)
	if !errors.Is(match.Stopped, store.ErrNotFound) {
		t.Errorf("stopped by %v", match.Stopped)
	}
	w.counted(t, map[string]int64{"foreign": 1}, 0)
	w.mustLoad(t, tenant, len(tenant)/pageTokens)
	w.mustPublish(t, p, 1)
	w.mustLoad(t, p, 3)
	w.counted(t, map[string]int64{"foreign": 1}, 0)
}

// The master restarts empty while descriptors of the old one are held, well
// within their lease, and gives their memory to other pages.
func TestMasterRestartedWithinALease(t *testing.T) {
	c := fragile.start(t)
	t.Run("during a read", func(t *testing.T) {
		leakless(t)
		w, other := join(t, c, "tcp"), join(t, c, "tcp")
		p := newPrompt(3)
		w.mustPublish(t, p, 3)
		w.cues.afterFirst = func() error {
			at, err := placeOf(within(t), other.client, w.keys(t, p)[1])
			if err != nil {
				return err
			}
			c.KillMaster()
			if err := c.StartMaster(within(t)); err != nil {
				return err
			}
			_, err = reuse(t, other, at)
			return err
		}
		match := w.mustLoad(t, p, 1)
		w.cues.played(t)
		if !errors.Is(match.Stopped, store.ErrNotFound) {
			t.Errorf("stopped by %v", match.Stopped)
		}
		if n := w.client.Stats().Renewed; n != 0 {
			t.Errorf("%d descriptors were renewed: the lease was over", n)
		}
		if got := w.Stats().Rejected["foreign"]; got < 1 || got > 2 {
			t.Errorf("rejected %v", w.Stats().Rejected)
		}
		w.mustPublish(t, p, 3)
		w.mustLoad(t, p, 3)
	})
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w := join(t, c, plane)
		p := newPrompt(3)
		w.mustPublish(t, p, 3)
		w.mustLoad(t, p, 3)
		c.KillMaster()
		if err := c.StartMaster(within(t)); err != nil {
			t.Fatal(err)
		}
		if match := w.mustLoad(t, p, 0); !errors.Is(match.Stopped, store.ErrNotFound) {
			t.Errorf("stopped by %v", match.Stopped)
		}
		w.mustPublish(t, p, 3)
		w.mustLoad(t, p, 3)
		w.counted(t, nil, 0)
	})
}
