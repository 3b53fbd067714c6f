package mooncake

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/internal/cluster"
)

var sizes = []int{1, 7, 4096, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1 << 20, 14 << 20}

func TestRoundTrip(t *testing.T) {
	eachSetting(t, func(t *testing.T, s setting) {
		c := dial(t, s.store(t))
		if c.WireVersion() != s.wire {
			t.Errorf("wire version %s, want %s", c.WireVersion(), s.wire)
		}
		put := objectsOf(t, sizes...)
		tidy(t, c, put)
		none(t, "put", c.BatchPut(within(t), put))
		exists, err := c.BatchExist(within(t), append(keysIn(put), "nothing"))
		if want := append(slices.Repeat([]bool{true}, len(put)), false); err != nil || !slices.Equal(exists, want) {
			t.Errorf("exist: %v, %v", exists, err)
		}
		holds(t, c, put)
		stats, total := c.Stats(), int64(0)
		for _, size := range sizes {
			total += int64(size)
		}
		n := int64(len(sizes))
		if want := (PlaneStats{n, total, n, total}); stats.TCP != want {
			t.Errorf("stats %+v, want %+v", stats.TCP, want)
		}
		if stats.MasterConnections != 1 || stats.OwnerConnections > 4 {
			t.Errorf("%d connections to the master, %d to the owner", stats.MasterConnections, stats.OwnerConnections)
		}
	})
}

func TestEachItemHasItsOwnOutcome(t *testing.T) {
	eachSetting(t, func(t *testing.T, s setting) {
		c := dial(t, s.store(t))
		put := objectsOf(t, 100, 200, 300)
		tidy(t, c, put)
		none(t, "put", c.BatchPut(within(t), put[:1]))

		again := slices.Clone(put)
		again[0].Bytes = random(100)
		again = append(again, again[2], Item{Key: "", Bytes: random(1)}, Item{Key: "empty " + put[0].Key})
		errs := c.BatchPut(within(t), again)
		for i, want := range []error{ErrExists, nil, nil, ErrExists, ErrArgument, ErrArgument} {
			if !errors.Is(errs[i], want) {
				t.Errorf("put %d: %v, want %v", i, errs[i], want)
			}
		}
		holds(t, c, put) // of the first put

		got := blanks(put)
		got[0].Bytes = make([]byte, 99)
		got[2].Bytes = make([]byte, 301)
		got = append(got, Item{Key: "nothing", Bytes: make([]byte, 1)}, Item{Key: "nothing"})
		errs = c.BatchGet(within(t), got)
		for i, want := range []error{ErrLength, nil, ErrLength, ErrNotFound, ErrNotFound} {
			if !errors.Is(errs[i], want) {
				t.Errorf("get %d: %v, want %v", i, errs[i], want)
			}
		}
	})
}

func TestBatchesOfManyObjects(t *testing.T) {
	eachSetting(t, func(t *testing.T, s setting) {
		c := dial(t, s.store(t))
		put := objectsOf(t, slices.Repeat([]int{17, 4096, 70_000}, 400)...) // 1,200: more than a window
		tidy(t, c, put)
		none(t, "put", c.BatchPut(within(t), put))
		got := blanks(put)
		var done atomic.Int64
		for i := range got {
			got[i].Done = func() {
				if !slices.Equal(got[i].Bytes, put[i].Bytes) {
					t.Errorf("object %d is not whole when it is done", i)
				}
				done.Add(1)
			}
		}
		none(t, "get", c.BatchGet(within(t), got))
		if done.Load() != int64(len(got)) {
			t.Errorf("%d of %d were done", done.Load(), len(got))
		}
		many := append(names(t, 3*maxKeys), put[0].Key)
		exists, err := c.BatchExist(within(t), many)
		if err != nil || len(exists) != len(many) || slices.Index(exists, true) != len(many)-1 {
			t.Errorf("%d keys: %d results, %v", len(many), len(exists), err)
		}
	})
}

func TestEmptyBatches(t *testing.T) {
	c := dial(t, latest.store(t))
	if errs := c.BatchPut(within(t), nil); len(errs) != 0 {
		t.Error(errs)
	}
	if errs := c.BatchGet(within(t), nil); len(errs) != 0 {
		t.Error(errs)
	}
	if errs := c.BatchRemove(within(t), nil, true); len(errs) != 0 {
		t.Error(errs)
	}
	if exists, err := c.BatchExist(within(t), nil); len(exists) != 0 || err != nil {
		t.Error(exists, err)
	}
}

// A lease keeps an object from a remove without force, in all versions, and from
// no remove with it.
func TestRemove(t *testing.T) {
	eachSetting(t, func(t *testing.T, s setting) {
		c := dial(t, s.store(t))
		put := objectsOf(t, 1000, 1000)
		tidy(t, c, put)
		none(t, "put", c.BatchPut(within(t), put))
		if _, err := c.BatchExist(within(t), keysIn(put[:1])); err != nil { // grants a lease
			t.Fatal(err)
		}
		keys := append(keysIn(put), "nothing")
		errs := c.BatchRemove(within(t), keys, false)
		if !errors.Is(errs[0], ErrLeased) || errs[1] != nil || !errors.Is(errs[2], ErrNotFound) {
			t.Errorf("without force: %v", errs)
		}
		errs = c.BatchRemove(within(t), keys, true)
		if errs[0] != nil || !errors.Is(errs[1], ErrNotFound) || !errors.Is(errs[2], ErrNotFound) {
			t.Errorf("with force: %v", errs)
		}
		for i := range put {
			put[i].Bytes = random(2000)
		}
		none(t, "put again", c.BatchPut(within(t), put))
		holds(t, c, put)
	})
}

func TestQueryHealthAndPing(t *testing.T) {
	eachSetting(t, func(t *testing.T, s setting) {
		c := dial(t, s.store(t))
		put := objectsOf(t, 5000)
		tidy(t, c, put)
		none(t, "put", c.BatchPut(within(t), put))
		known, err := c.BatchQuery(within(t), []string{put[0].Key, "nothing"})
		if err != nil || known[0].Err != nil || !errors.Is(known[1].Err, ErrNotFound) {
			t.Fatalf("%+v, %v", known, err)
		}
		r := known[0].Replicas[0]
		lease := map[string]time.Duration{"0.3.13": 10 * time.Second, "0.3.11": 5 * time.Second}[s.wire] // the masters' defaults
		if known[0].Lease != lease || len(known[0].Replicas) != 1 || known[0].Checksum != nil ||
			r.Kind != MemoryReplica || !r.Complete || r.Size != 5000 || r.Protocol != "tcp" || r.Address == 0 || r.Endpoint == "" {
			t.Errorf("%+v", known[0])
		}
		if err := c.Warm(within(t), keysIn(put)); err != nil {
			t.Error(err)
		}
		if err := c.Health(within(t)); err != nil {
			t.Error(err)
		}
		if err := c.Ping(within(t)); err != nil {
			t.Error(err)
		}
	})
}

// A put into a store that has no room and nothing that it may evict says so, over
// either plane, and works again when there is room.
func TestFull(t *testing.T) {
	for _, s := range []setting{latest, oldest} {
		t.Run(s.name(), func(t *testing.T) {
			store := s.own(t, cluster.Config{SegmentBytes: 32 << 20})
			for _, mode := range []string{sharedMemoryOff, store.Owner()} {
				c := dial(t, store, over(mode), func(config *Config) { config.Replicate.HardPin = true })
				fill(t, c)
			}
		})
	}
}

func fill(t *testing.T, c *Client) {
	t.Helper()
	put := objectsOf(t, slices.Repeat([]int{4 << 20}, 12)...)
	var stored, refused []Item
	for i, err := range c.BatchPut(within(t), put) {
		switch {
		case err == nil:
			stored = append(stored, put[i])
		case errors.Is(err, ErrNoSpace):
			refused = append(refused, put[i])
		default:
			t.Errorf("%s: object %d: %v", c.Plane(), i, err)
		}
	}
	if len(stored) < 6 || len(stored) > 8 {
		t.Fatalf("%s: %d objects fit", c.Plane(), len(stored))
	}
	none(t, "remove", c.BatchRemove(within(t), keysIn(stored[:1]), true))
	none(t, "put", c.BatchPut(within(t), refused[:1]))
	stored = append(stored[1:], refused[0])
	holds(t, c, stored)
	none(t, "remove", c.BatchRemove(within(t), keysIn(stored), true))
}

// What serves at an address need not be a master of a version that is known.
func TestForeignServers(t *testing.T) {
	store := latest.store(t)
	_, err := Dial(within(t), Config{Master: store.Owner(), Metadata: store.Metadata()})
	if !errors.Is(err, ErrWireVersion) {
		t.Fatal(err)
	}
	for _, part := range []string{"0.3.13", "0.3.12", "0.3.11", store.Owner(), "error 11 of the server"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	_, web, _ := strings.Cut(store.Metadata(), "//")
	web, _, _ = strings.Cut(web, "/")
	if _, err := Dial(within(t), Config{Master: web, Metadata: store.Metadata()}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a web server: %v", err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, Config{Master: nobody, Metadata: store.Metadata()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that is silent: %v", err)
	}
	_ = l.Close()
	if _, err := Dial(within(t), Config{Master: nobody, Metadata: store.Metadata()}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("nobody: %v", err)
	}
}

func TestConfigsThatCannotWork(t *testing.T) {
	const master, metadata = "127.0.0.1:1", "P2PHANDSHAKE"
	for name, c := range map[string]struct {
		config Config
		want   error
		says   string
	}{
		"no port":     {Config{Master: "localhost", Metadata: metadata}, ErrArgument, "localhost"},
		"no metadata": {Config{Master: master}, ErrUnsupported, "P2PHANDSHAKE"},
		"etcd":        {Config{Master: master, Metadata: "etcd://127.0.0.1:2379"}, ErrUnsupported, "etcd"},
		"rdma":        {Config{Master: master, Metadata: metadata, Protocol: "rdma"}, ErrUnsupported, "tcp"},
		"replicas":    {Config{Master: master, Metadata: metadata, Replicate: ReplicateConfig{Replicas: -1}}, ErrArgument, "-1"},
	} {
		_, err := Dial(within(t), c.config)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClosed(t *testing.T) {
	c := dial(t, latest.store(t))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	item := []Item{{Key: "k", Bytes: make([]byte, 1)}}
	_, existErr := c.BatchExist(within(t), []string{"k"})
	_, queryErr := c.BatchQuery(within(t), []string{"k"})
	for i, err := range []error{
		existErr, queryErr, c.BatchPut(within(t), item)[0], c.BatchGet(within(t), item)[0],
		c.BatchRemove(within(t), []string{"k"}, true)[0], c.Health(within(t)), c.Ping(within(t)), c.Warm(within(t), nil),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// A call whose context is done before it begins does nothing.
func TestDoneBefore(t *testing.T) {
	c := dial(t, latest.store(t))
	if err := c.BatchPut(within(t), []Item{{Key: "done before", Bytes: []byte("x")}})[0]; err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.BatchRemove(ctx, []string{"done before"}, true)[0]; !errors.Is(err, context.Canceled) {
		t.Errorf("removing: %v", err)
	}
	if err := c.BatchPut(ctx, []Item{{Key: "done before, put", Bytes: []byte("x")}})[0]; !errors.Is(err, context.Canceled) {
		t.Errorf("putting: %v", err)
	}
	there, err := c.BatchExist(within(t), []string{"done before", "done before, put"})
	if err != nil || !there[0] || there[1] {
		t.Errorf("there: %v, %v", there, err)
	}
}

func TestCloseAtOnce(t *testing.T) {
	c := dial(t, latest.store(t))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestAlloc(t *testing.T) {
	c := dial(t, latest.store(t))
	for _, size := range []int{0, 1, 4096, 1<<20 + 80} {
		b, err := c.Alloc(size)
		if err != nil || len(b.Bytes()) != size || cap(b.Bytes()) != size {
			t.Fatalf("%d bytes: %v", size, err)
		}
		b.Free()
		b.Free()
	}
	if _, err := c.Alloc(-1); !errors.Is(err, ErrArgument) {
		t.Error(err)
	}
}
