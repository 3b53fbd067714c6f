package mooncake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"ollamoon/internal/cluster"
)

// soon is what a call that has to give up at once may take on a busy machine.
const soon = 15 * time.Second

// timed fails the test when what it runs takes longer than limit.
func timed(t *testing.T, what string, limit time.Duration, run func()) {
	t.Helper()
	begin := time.Now()
	run()
	if took := time.Since(begin); took > limit {
		t.Errorf("%s took %v, more than %v", what, took, limit)
	}
}

// freeze stops a process until the returned function is called.
func freeze(t *testing.T, pid int) (thaw func()) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, "the process to stop", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return err == nil && !slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			return err == nil && !bytes.Contains(stat, []byte(") T "))
		})
	})
	thaw = sync.OnceFunc(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	t.Cleanup(thaw)
	return thaw
}

// A put that is cancelled in the middle of its data returns soon and leaves its
// keys free; a get that is cancelled returns soon.
func TestCancelledInTheMiddleOfAnObject(t *testing.T) {
	for _, s := range []setting{latest, oldest} {
		t.Run(s.name(), func(t *testing.T) {
			store := s.own(t, cluster.Config{SegmentBytes: 64 << 20})
			c := dial(t, store)
			there, put := objectsOf(t, 14<<20), objectsOf(t, 14<<20, 14<<20)
			none(t, "put", c.BatchPut(within(t), there))
			none(t, "get", c.BatchGet(within(t), blanks(there)))

			thaw := freeze(t, store.OwnerPID())
			for what, call := range map[string]func(context.Context) []error{
				"put": func(ctx context.Context) []error { return c.BatchPut(ctx, put) },
				"get": func(ctx context.Context) []error { return c.BatchGet(ctx, blanks(there)) },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				timed(t, what, soon, func() {
					for _, err := range call(ctx) {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("%s: %v", what, err)
						}
					}
				})
				cancel()
			}
			if n := c.Stats().Revoked; n != 2 {
				t.Errorf("%d keys revoked", n)
			}
			thaw()
			none(t, "put again", c.BatchPut(within(t), put))
			holds(t, c, put)
			holds(t, c, there)
		})
	}
}

// Whenever a put is cancelled, its key is free at once, or its object is whole.
func TestCancelledAtAnyTime(t *testing.T) {
	for _, s := range []setting{latest, oldest} {
		t.Run(s.name(), func(t *testing.T) {
			c := dial(t, s.own(t, cluster.Config{SegmentBytes: 64 << 20}))
			var cancelled, stored int
			for i := range 150 {
				put := objectsOf(t, 1000, 4<<20, 1000)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(6*time.Millisecond))))
				first := c.BatchPut(ctx, put)
				cancel()
				second := blanks(put) // of other bytes, to tell the two apart
				for j := range second {
					second[j].Bytes = random(len(put[j].Bytes))
				}
				for j, err := range c.BatchPut(within(t), second) {
					switch {
					case err == nil && first[j] != nil:
						cancelled++
						put[j] = second[j]
					case errors.Is(err, ErrExists):
						stored++
					default:
						t.Fatalf("round %d, object %d: %v, then %v", i, j, first[j], err)
					}
				}
				holds(t, c, put)
				none(t, "remove", c.BatchRemove(within(t), keysIn(put), true))
			}
			if cancelled == 0 || stored == 0 {
				t.Errorf("%d cancelled and %d stored: the test does not hit both", cancelled, stored)
			}
		})
	}
}

func TestCloseEndsPuts(t *testing.T) {
	store := latest.own(t, cluster.Config{SegmentBytes: 64 << 20})
	c, other := dial(t, store), dial(t, store)
	put := objectsOf(t, 14<<20)
	thaw := freeze(t, store.OwnerPID())
	result := make(chan []error, 1)
	go func() { result <- c.BatchPut(context.Background(), put) }()
	await(t, "the put to begin", func() bool {
		known, err := other.BatchQuery(within(t), keysIn(put))
		return err == nil && errors.Is(known[0].Err, ErrNotReady)
	})
	timed(t, "close", soon, func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if errs := <-result; !errors.Is(errs[0], ErrClosed) {
		t.Error(errs)
	}
	thaw()
	none(t, "put", other.BatchPut(within(t), put))
	holds(t, other, put)
}

// An owner that is gone costs bounded time, and its objects are read from where
// else they are.
func TestOwnerGone(t *testing.T) {
	store := latest.own(t, cluster.Config{Owners: 2, SegmentBytes: 64 << 20})
	one := dial(t, store)
	two := dial(t, store, func(config *Config) { config.Replicate.Replicas = 2 })
	single, double := objectsOf(t, slices.Repeat([]int{100_000}, 40)...), objectsOf(t, slices.Repeat([]int{100_000}, 20)...)
	none(t, "put", one.BatchPut(within(t), single))
	none(t, "put", two.BatchPut(within(t), double))
	known, err := one.BatchQuery(within(t), keysIn(double))
	if err != nil || len(known[0].Replicas) != 2 || known[0].Replicas[0].Endpoint == known[0].Replicas[1].Endpoint {
		t.Fatalf("%+v, %v", known[0], err)
	}

	store.KillOwner()
	holds(t, two, double)
	if two.Stats().Rerouted == 0 {
		t.Error("no read was sent to another replica")
	}
	timed(t, "get", soon, func() {
		var gone int
		for _, err := range one.BatchGet(within(t), blanks(single)) {
			if errors.Is(err, ErrUnavailable) {
				gone++
			} else if err != nil {
				t.Error(err)
			}
		}
		if gone == 0 || gone == len(single) {
			t.Errorf("%d of %d objects are gone", gone, len(single))
		}
	})
	timed(t, "put", soon, func() {
		again := objectsOf(t, slices.Repeat([]int{100_000}, 40)...)
		errs := one.BatchPut(within(t), again)
		var stored []Item
		for i, err := range errs {
			if err == nil {
				stored = append(stored, again[i])
			} else if !errors.Is(err, ErrUnavailable) {
				t.Error(err)
			}
		}
		if len(stored) == 0 || len(stored) == len(again) {
			t.Errorf("%d of %d objects are stored", len(stored), len(again))
		}
		holds(t, one, stored)
	})
}

// A client outlives its master: it fails at once while that is gone, and works
// with the next one.
func TestMasterGone(t *testing.T) {
	store := latest.own(t, cluster.Config{})
	c := dial(t, store)
	put := objectsOf(t, 1000)
	none(t, "put", c.BatchPut(within(t), put))
	store.KillMaster()
	timed(t, "calls", soon, func() {
		_, err := c.BatchExist(within(t), keysIn(put))
		for i, err := range []error{err, c.BatchPut(within(t), put)[0], c.BatchGet(within(t), blanks(put))[0], c.Health(within(t))} {
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	})
	if err := store.StartMaster(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := c.BatchGet(within(t), blanks(put))[0]; !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	none(t, "put", c.BatchPut(within(t), put))
	holds(t, c, put)
}

// Descriptors that are older than half a lease are asked for again before they are
// used.
func TestOldDescriptorsAreRenewed(t *testing.T) {
	store := latest.own(t, cluster.Config{LeaseTTL: time.Second})
	c := dial(t, store, func(config *Config) { config.Connections = 1 })
	put := objectsOf(t, slices.Repeat([]int{10_000}, 6)...)
	none(t, "put", c.BatchPut(within(t), put))
	got := blanks(put)
	for i := range got {
		got[i].Done = func() { time.Sleep(300 * time.Millisecond) }
	}
	none(t, "get", c.BatchGet(within(t), got))
	for i := range put {
		if !bytes.Equal(got[i].Bytes, put[i].Bytes) {
			t.Errorf("object %d: other bytes", i)
		}
	}
	if n := c.Stats().Renewed; n < 2 || n > 5 {
		t.Errorf("%d descriptors renewed", n)
	}
}

// A read that outlasts the lease is not trusted.
func TestReadThatOutlastsTheLease(t *testing.T) {
	store := latest.own(t, cluster.Config{LeaseTTL: 200 * time.Millisecond})
	c := dial(t, store)
	put := objectsOf(t, 1000)
	none(t, "put", c.BatchPut(within(t), put))
	thaw := freeze(t, store.OwnerPID())
	time.AfterFunc(time.Second, thaw)
	none(t, "get", c.BatchGet(within(t), blanks(put))) // by a fresh descriptor
	if n := c.Stats().Renewed; n != 1 {
		t.Errorf("%d descriptors renewed", n)
	}
}
