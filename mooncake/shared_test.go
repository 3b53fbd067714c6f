package mooncake

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/internal/cluster"
)

// over makes a client share memory with an owner of the store.
func over(addr string) func(*Config) {
	return func(config *Config) { config.SharedMemory = addr }
}

// allocated returns copies of items in buffers of Alloc.
func allocated(t testing.TB, c *Client, items []Item) []Item {
	t.Helper()
	out := make([]Item, len(items))
	for i, item := range items {
		b, err := c.Alloc(len(item.Bytes))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Free)
		copy(b.Bytes(), item.Bytes)
		out[i] = Item{Key: item.Key, Bytes: b.Bytes()}
	}
	return out
}

func total(items []Item) (bytes int64) {
	for _, item := range items {
		bytes += int64(len(item.Bytes))
	}
	return bytes
}

func TestSharedMemory(t *testing.T) {
	eachSetting(t, func(t *testing.T, s setting) {
		store := s.store(t)
		c, tcp := dial(t, store, over(store.Owner())), dial(t, store)
		if c.Plane() != "shared memory" || tcp.Plane() != "tcp" {
			t.Fatalf("planes %s and %s", c.Plane(), tcp.Plane())
		}
		put := objectsOf(t, sizes...)
		tidy(t, c, put)
		none(t, "put", c.BatchPut(within(t), allocated(t, c, put)))
		holds(t, tcp, put)

		got := allocated(t, c, blanks(put))
		var done atomic.Int64
		for i := range got {
			got[i].Done = func() {
				if !bytes.Equal(got[i].Bytes, put[i].Bytes) {
					t.Errorf("object of %d bytes: other bytes", len(put[i].Bytes))
				}
				done.Add(1)
			}
		}
		none(t, "get", c.BatchGet(within(t), got))
		if done.Load() != int64(len(put)) {
			t.Errorf("%d of %d were done", done.Load(), len(put))
		}

		n, size := int64(len(put)), total(put)
		stats := c.Stats()
		if want := (PlaneStats{n, size, n, size}); stats.SharedMemory != want || stats.TCP != (PlaneStats{}) {
			t.Errorf("%+v, want %+v in shared memory", stats, want)
		}
		if stats.Copies != 0 || stats.Fallbacks != 0 || stats.OwnerConnections != 0 {
			t.Errorf("%+v", stats)
		}
	})
}

// Over either plane the client holds little beyond the caller's buffers, whichever
// these are; those that are not shared cost a copy through shared memory.
func TestHeldMemoryAndCopies(t *testing.T) {
	store := latest.store(t)
	for _, mode := range []string{sharedMemoryOff, store.Owner()} {
		c := dial(t, store, over(mode))
		put := objectsOf(t, append(slices.Repeat([]int{7<<20 + 80}, 8), slices.Repeat([]int{1000}, 50)...)...)
		got := blanks(put)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		none(t, "put", c.BatchPut(within(t), put))
		none(t, "get", c.BatchGet(within(t), got))
		runtime.ReadMemStats(&after)
		for i := range put {
			if !bytes.Equal(got[i].Bytes, put[i].Bytes) {
				t.Errorf("object %d: other bytes", i)
			}
		}
		held := int64(after.TotalAlloc - before.TotalAlloc) //nolint:gosec // small
		copies, size := int64(0), int64(0)
		if l := c.shared.use(); l != nil {
			held += l.session.Stats().Resident
			copies, size = 2*int64(len(put)), 2*total(put)
		}
		if stats := c.Stats(); stats.Copies != copies || stats.CopiedBytes != size {
			t.Errorf("%s: %d copies of %d bytes, want %d of %d", c.Plane(), stats.Copies, stats.CopiedBytes, copies, size)
		}
		t.Logf("%s: %d KiB held", c.Plane(), held>>10)
		if held > 48<<20 {
			t.Errorf("%s: %d MiB held beyond the caller's buffers", c.Plane(), held>>20)
		}
		c.BatchRemove(within(t), keysIn(put), true)
	}
}

func TestSharedMemoryOutcomes(t *testing.T) {
	eachSetting(t, func(t *testing.T, s setting) {
		store := s.store(t)
		c := dial(t, store, over(store.Owner()))
		put := objectsOf(t, 5000, 5000, 5000)
		tidy(t, c, put)
		none(t, "put", c.BatchPut(within(t), put[:1]))
		again := slices.Clone(put)
		again[0].Bytes = random(5000)
		again = append(again, again[2], Item{Key: "", Bytes: random(1)}, Item{Key: "empty"})
		errs := c.BatchPut(within(t), allocated(t, c, again))
		for i, want := range []error{ErrExists, nil, nil, ErrExists, ErrArgument, ErrArgument} {
			if !errors.Is(errs[i], want) {
				t.Errorf("put %d: %v, want %v", i, errs[i], want)
			}
		}
		holds(t, c, put)
		got := blanks(put)
		got[0].Bytes = make([]byte, 4999)
		got[2].Bytes = make([]byte, 5001)
		got = append(got, Item{Key: "nothing", Bytes: make([]byte, 1)}, Item{Key: "nothing"}, got[1])
		errs = c.BatchGet(within(t), allocated(t, c, got))
		for i, want := range []error{ErrLength, nil, ErrLength, ErrNotFound, ErrNotFound, nil} {
			if !errors.Is(errs[i], want) {
				t.Errorf("get %d: %v, want %v", i, errs[i], want)
			}
		}
	})
}

// A process of this machine is used on its own only when it serves the same store.
func TestSharedMemoryIsFoundByItself(t *testing.T) {
	first, second := latest.store(t), latest.own(t, cluster.Config{})
	for _, store := range []*cluster.Cluster{first, second} {
		c := dial(t, store, over(""))
		await(t, "shared memory", func() bool { return c.Plane() == "shared memory" })
		put := objectsOf(t, 1000)
		tidy(t, c, put)
		none(t, "put", c.BatchPut(within(t), put))
		holds(t, dial(t, store), put)
		if n := c.Stats().SharedMemory.ObjectsWritten; n != 1 {
			t.Errorf("%d objects went through shared memory", n)
		}
	}
	old := oldest.store(t)
	for addr, want := range map[string]error{
		second.Owner():  ErrUnavailable, // another store
		second.Master(): ErrUnavailable, // not a mooncake_client
		old.Owner():     ErrUnsupported, // another version
		"nowhere":       ErrArgument,
	} {
		_, err := Dial(within(t), Config{Master: first.Master(), Metadata: first.Metadata(), SharedMemory: addr})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", addr, err, want)
		}
	}
}

// When the process dies, its session does, and TCP serves; when it is back, it is
// used again.
func TestSharedMemoryLost(t *testing.T) {
	store := latest.own(t, cluster.Config{Owners: 2, SegmentBytes: 64 << 20, ClientTTL: 2 * time.Second})
	c := dial(t, store, over(store.Owner()), func(config *Config) { config.Replicate.Replicas = 2 })
	put := objectsOf(t, 1<<20, 2<<20, 1000)
	none(t, "put", c.BatchPut(within(t), allocated(t, c, put)))
	got := allocated(t, c, blanks(put))
	store.KillOwner()
	timed(t, "get", soon, func() { none(t, "get", c.BatchGet(within(t), got)) })
	for i := range put {
		if !bytes.Equal(got[i].Bytes, put[i].Bytes) {
			t.Errorf("object %d: other bytes", i)
		}
	}
	if stats := c.Stats(); stats.TCP.ObjectsRead != 3 || stats.SharedMemory.ObjectsWritten != 3 {
		t.Errorf("%+v", stats)
	}
	if c.Plane() != "tcp" {
		t.Errorf("plane %s", c.Plane())
	}
	await(t, "replicas of the dead owner to be forgotten", func() bool {
		known, err := c.BatchQuery(within(t), keysIn(put))
		return err == nil && !slices.ContainsFunc(known, func(o Object) bool { return len(o.Replicas) > 1 })
	})
	if err := store.StartOwner(within(t)); err != nil {
		t.Fatal(err)
	}
	await(t, "shared memory to be used again", func() bool { return c.Plane() == "shared memory" })
	// The arena is another one; buffers of the old one are copied.
	holds(t, c, put)
	none(t, "get", c.BatchGet(within(t), got))
	if n := c.Stats().SharedMemory.ObjectsRead; n != 6 {
		t.Errorf("%d objects read through shared memory", n)
	}
}

// A process that hangs costs what the caller's context allows.
func TestSharedMemoryHangs(t *testing.T) {
	store := latest.own(t, cluster.Config{SegmentBytes: 64 << 20})
	c := dial(t, store, over(store.Owner()))
	there, put := objectsOf(t, 4<<20), objectsOf(t, 4<<20, 4<<20)
	none(t, "put", c.BatchPut(within(t), there))
	buffers := allocated(t, c, put)
	thaw := freeze(t, store.OwnerPID())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	timed(t, "put and get", soon, func() {
		for _, err := range append(c.BatchPut(ctx, buffers), c.BatchGet(ctx, blanks(there))...) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	})
	thaw()
	for i, err := range c.BatchPut(within(t), buffers) { // the process may have stored them after all
		if err != nil && !errors.Is(err, ErrExists) {
			t.Errorf("object %d: %v", i, err)
		}
	}
	holds(t, c, put)
	holds(t, c, there)
}

// A put that the process begins and does not end is an error that says so, not one
// that says that the object is there.
func TestSharedMemoryBreaksOffAPut(t *testing.T) {
	store := latest.own(t, cluster.Config{Owners: 2, SegmentBytes: 64 << 20})
	c := dial(t, store, over(store.Owners()[1]), func(config *Config) {
		config.CallTimeout, config.StallTimeout = 2*time.Second, time.Second
	})
	put := objectsOf(t, slices.Repeat([]int{100_000}, 20)...)
	freeze(t, store.OwnerPID()) // which the process writes to
	errs := c.BatchPut(within(t), put)
	there, err := c.BatchExist(within(t), keysIn(put))
	if err != nil {
		t.Fatal(err)
	}
	var broken int
	for i, err := range errs {
		if stored := err == nil || errors.Is(err, ErrExists); stored != there[i] {
			t.Errorf("object %d: %v, and that it is there is %t", i, err, there[i])
		}
		if errors.Is(err, ErrUnavailable) {
			broken++
		}
	}
	if broken == 0 || c.Stats().Fallbacks == 0 {
		t.Errorf("%d puts broke off: %+v", broken, c.Stats())
	}
}
