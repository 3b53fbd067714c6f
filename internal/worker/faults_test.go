package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"ollamoon/internal/cluster"
	client "ollamoon/mooncake"
	"ollamoon/store"
	"ollamoon/store/faulty"
	"ollamoon/store/file"
	"ollamoon/store/mooncake"
)

// over returns a worker with the same engine, which has --cache-ram 0, and another
// store. One of them is asked at a time.
func (r *running) over(t *testing.T, s store.Store, change func(*Sharing)) *running {
	t.Helper()
	config := r.worker.config
	sharing := *config.Sharing
	sharing.Store = s
	if change != nil {
		change(&sharing)
	}
	config.Remembered = 0
	config.Sharing, config.Logger = &sharing, slog.New(slog.NewTextHandler(t.Output(), nil))
	w, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w)
	t.Cleanup(func() {
		server.Close()
		w.Close()
	})
	return &running{t: t, url: server.URL, engine: r.engine, worker: w, folder: r.folder}
}

// leases of the Mooncake Store of these tests end soon.
const lease = 2 * time.Second

// mooncakes starts a Mooncake Store that has room for ten pages.
func mooncakes(t *testing.T) *cluster.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Metadata: cluster.MetadataP2P, SegmentBytes: 64 << 20, LeaseTTL: lease})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// join opens a Mooncake Store over TCP.
func join(t *testing.T, c *cluster.Cluster) store.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := mooncake.Open(ctx, client.Config{Master: c.Master(), Metadata: c.Metadata(), SharedMemory: "off"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A known is a prompt and what an engine answers to it.
type known struct {
	tokens []int32
	answer string
}

// check asks with nothing in the slot and fails the test unless so many tokens
// are reused and the answer is the known one.
func (r *running) check(what string, k known, cached int) {
	r.t.Helper()
	got := r.fresh(0).ask(greedy(k.tokens))
	if got.Content != k.answer {
		r.t.Errorf("%s: %q, want %q", what, got.Content, k.answer)
	}
	if got.Timings.CacheTokens != cached || got.Timings.CacheTokens+got.Timings.PromptTokens != len(k.tokens) {
		r.t.Errorf("%s: %+v, want %d tokens reused of %d", what, got.Timings, cached, len(k.tokens))
	}
}

// Stores of every kind fail in every way: answers stay as they are, what is bad is
// counted and replaced, and what comes back is used again without a restart.
func TestStoresThatFail(t *testing.T) {
	kept := faulty.New(newStore(t))
	r := start(t, kept, nil, "-c", "2048", "-np", "1", "--cache-ram", "0")
	long := known{tokens: r.tokens("d", 4*PageTokens+70)}
	prompt := known{tokens: append([]int32{1000}, long.tokens[:329]...)}
	for _, k := range []*known{&long, &prompt} {
		k.answer = r.fresh(0).ask(greedy(k.tokens)).Content
	}
	r = r.over(t, kept, nil)
	c := mooncakes(t)

	t.Run("bad pages in a folder", func(t *testing.T) {
		s, err := file.Open(file.Config{Dir: filepath.Join(t.TempDir(), "pages")})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		r.over(t, s, nil).badPages(long, kept)
	})
	t.Run("bad pages in Mooncake", func(t *testing.T) { r.over(t, join(t, c), nil).badPages(long, kept) })
	t.Run("it says yes and never loads", func(t *testing.T) {
		r := r.over(t, kept, nil)
		kept.Add(faulty.Fault{Ops: faulty.Get, Err: store.ErrUnavailable})
		defer kept.Clear()
		for i := range 2 {
			before, _ := kept.Calls(faulty.Get)
			r.check("a store whose loads fail", prompt, 0)
			if after, _ := kept.Calls(faulty.Get); after-before != 1 {
				t.Errorf("request %d asked %d times for pages, want once", i, after-before)
			}
		}
	})
	t.Run("slower than computing", func(t *testing.T) { r.over(t, kept, nil).slowStore(kept, prompt) })
	t.Run("evicted between lookup and read", func(t *testing.T) {
		s := &cued{Store: join(t, c)}
		r := r.over(t, s, nil)
		r.shared("published", prompt)
		s.beforeGet = func() error { return evict(t.Context(), join(t, c)) }
		r.check("evicted", prompt, 0)
		if s.beforeGet != nil {
			t.Error("nothing was read")
		}
		if rejected := r.worker.Status().Pages.Rejected; len(rejected) > 0 {
			t.Errorf("other bytes were read: %v", rejected)
		}
	})
	t.Run("the master goes and comes back empty", func(t *testing.T) {
		r := r.over(t, join(t, c), func(s *Sharing) { s.Deadline = 3 * time.Second })
		r.shared("with a master", prompt)
		c.StopMaster()
		begin := time.Now()
		r.check("without a master", prompt, 0)
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("without a master an answer took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := c.StartMaster(ctx); err != nil {
			t.Fatal(err)
		}
		r.shared("with a master that knows nothing", prompt)
	})
}

// shared asks until the store has the prompt, as a store has that is full or only
// just begins, after a while. No answer is another one.
func (r *running) shared(what string, k known) {
	r.t.Helper()
	for end := time.Now().Add(patience); ; {
		got := r.fresh(0).ask(greedy(k.tokens))
		if got.Content != k.answer {
			r.t.Errorf("%s: %q, want %q", what, got.Content, k.answer)
		}
		if got.Timings.CacheTokens == boundary(len(k.tokens)) {
			return
		}
		if time.Now().After(end) {
			r.t.Fatalf("%s: nothing is shared", what)
		}
	}
}

// badPages copies a prompt's pages from another store and puts other objects under
// the keys of all but the first.
func (r *running) badPages(k known, from store.Store) {
	t := r.t
	s := r.worker.share.Load()
	var items []store.Item
	for i := range boundary(len(k.tokens)) / PageTokens {
		items = append(items, store.Item{Key: s.key(k.tokens, i), Bytes: make([]byte, s.parts[0].ObjectBytes())})
	}
	if err := errors.Join(from.BatchGet(t.Context(), items)...); err != nil {
		t.Fatal(err)
	}
	bad := map[string]store.Item{}
	for i, reason := range []string{"foreign", "sum", "length"} {
		item := store.Item{Key: items[i+1].Key, Bytes: slices.Clone(items[i+1].Bytes)}
		switch reason {
		case "foreign": // the page before it
			copy(item.Bytes, items[i].Bytes)
		case "sum": // a flipped bit
			item.Bytes[1000] ^= 4
		case "length": // truncated, or of a cache of other elements
			item.Bytes = item.Bytes[:len(item.Bytes)/2]
		}
		bad[reason] = item
	}
	put := slices.Clone(items[:1])
	for _, item := range bad {
		put = append(put, item)
	}
	if err := errors.Join(s.Store.BatchPut(t.Context(), put)...); err != nil {
		t.Fatal(err)
	}
	r.check("bad pages", k, PageTokens)
	stats := r.worker.Status().Pages
	for reason := range bad {
		if stats.Rejected[reason] != 1 {
			t.Errorf("%d pages were rejected as %s", stats.Rejected[reason], reason)
		}
	}
	if stats.PagesDiscarded != int64(len(bad)) || stats.PagesPublished != int64(len(bad)) || stats.DiscardFailures != 0 {
		t.Errorf("stats %+v", stats)
	}
	r.check("good pages", k, 4*PageTokens)
}

// slowStore reads from a store that takes longer than computing does: it is asked
// once, and then no more.
func (r *running) slowStore(s *faulty.Store, prompt known) {
	t := r.t
	first := slices.Clone(prompt.tokens)
	first[0]++
	r.ask(greedy(first)) // how long computing takes is learnt
	delay := 4 * PageTokens * r.worker.Status().TokenCompute
	s.Add(faulty.Fault{Ops: faulty.Get, Delay: delay})
	defer s.Clear()
	r.check("a slow store", prompt, PageTokens)
	looked, _ := s.Calls(faulty.Exist)
	read, _ := s.Calls(faulty.Get)
	for range 2 {
		r.check("a store that is known to be slow", prompt, 0)
	}
	if n, _ := s.Calls(faulty.Get); n != read {
		t.Errorf("it was read %d times more", n-read)
	}
	if n, _ := s.Calls(faulty.Exist); n > looked+2 { // to publish
		t.Errorf("it was asked %d times more", n-looked)
	}
	status := r.worker.Status()
	if status.PageLoad < delay/4 || status.TokenCompute <= 0 || status.PageLoad < PageTokens*status.TokenCompute {
		t.Errorf("a page is expected to load in %v, and a token to be computed in %v", status.PageLoad, status.TokenCompute)
	}
}

// A cued store does something between a lookup and a read, once.
type cued struct {
	store.Store
	beforeGet func() error
}

// BatchGet does it and reads.
func (c *cued) BatchGet(ctx context.Context, items []store.Item) []error {
	if do := c.beforeGet; do != nil {
		c.beforeGet = nil
		if err := do(); err != nil {
			return store.Errors(len(items), err)
		}
	}
	return c.Store.BatchGet(ctx, items)
}

// evict outlasts the leases and puts objects until all that was there before is
// gone.
func evict(ctx context.Context, s store.Store) error {
	time.Sleep(lease + lease/4)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	junk := make([]byte, 4<<20)
	for filled := 0; filled < 32; {
		err := s.BatchPut(ctx, []store.Item{{Key: fmt.Sprintf("junk-%d-%d", time.Now().UnixNano(), filled), Bytes: junk}})[0]
		switch {
		case err == nil:
			filled++
		case ctx.Err() != nil || !errors.Is(err, store.ErrFull):
			return fmt.Errorf("filling the store: %w", err)
		default:
			time.Sleep(20 * time.Millisecond)
		}
	}
	return nil
}

// Workers with engines of their own get the same prompt at once: all answer
// alike, and the store has one object a page, which the next one uses.
func TestWorkersPublishTheSamePrefixAtOnce(t *testing.T) {
	c := mooncakes(t)
	args := []string{"-c", "1024", "-np", "1", "--cache-ram", "0", "-t", "1"}
	var workers []*running
	for range 2 {
		workers = append(workers, start(t, join(t, c), nil, args...))
	}
	prompt := workers[0].tokens("m", 330)
	answers := make([]answer, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
		wg.Go(func() { answers[i] = w.ask(greedy(prompt)) })
	}
	wg.Wait()
	published := int64(0)
	for i, w := range workers {
		if answers[i].Content != answers[0].Content {
			t.Errorf("worker %d answers %q, and the first %q", i, answers[i].Content, answers[0].Content)
		}
		published += w.worker.Status().Pages.PagesPublished
	}
	if published != 1 {
		t.Errorf("%d pages were published newly, want 1", published)
	}
	for _, w := range workers {
		w.check("after all", known{prompt, answers[0].Content}, PageTokens)
	}
}
