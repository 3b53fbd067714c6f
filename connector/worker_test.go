package connector_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"ollamoon/connector"
	"ollamoon/internal/cluster"
	"ollamoon/mooncake"
	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/store"
	storemooncake "ollamoon/store/mooncake"
)

// A worker is a connector with a client of its own, as each worker process has
// them.
type worker struct {
	*connector.Connector
	store  *storemooncake.Store
	client *mooncake.Client
	cues   *cues
	config connector.Config
}

// open dials a store over one plane, with one connection to an owner.
func open(ctx context.Context, c *cluster.Cluster, plane string, changes ...func(*mooncake.Config)) (*storemooncake.Store, error) {
	config := mooncake.Config{Master: c.Master(), Metadata: c.Metadata(), SharedMemory: "off", Connections: 1, ArenaBytes: 64 << 20}
	if plane == "shared memory" {
		config.SharedMemory = c.Owner()
	}
	for _, change := range changes {
		change(&config)
	}
	return storemooncake.Open(ctx, config)
}

func join(t testing.TB, c *cluster.Cluster, plane string, changes ...func(*mooncake.Config)) *worker {
	t.Helper()
	s, err := open(within(t), c, plane, changes...)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Client().Plane(); got != plane {
		t.Errorf("the plane is %s, want %s", got, plane)
	}
	w := workerOver(t, s, pagesOf(pageBytes))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// pagesOf is a configuration for pages of a size.
func pagesOf(pageBytes int) connector.Config {
	return connector.Config{
		Keys:      prefix.Config{Model: "faults@00112233445566778899aabbccddeeff", PageTokens: pageTokens},
		PageBytes: pageBytes,
		Sealer:    &page.Sealer{},
	}
}

func workerOver(t testing.TB, s *storemooncake.Store, config connector.Config) *worker {
	t.Helper()
	w := &worker{store: s, client: s.Client(), cues: &cues{Store: s}, config: config}
	var err error
	if w.Connector, err = connector.New(w.cues, config); err != nil {
		t.Fatal(err)
	}
	return w
}

// buffers returns n buffers for objects, and what gives them back.
func (w *worker) buffers(t testing.TB, n int) ([][]byte, func()) {
	t.Helper()
	taken, bytes := make([]store.Buffer, n), make([][]byte, n)
	for i := range taken {
		b, err := w.store.Alloc(w.ObjectBytes())
		if err != nil {
			t.Fatal(err)
		}
		taken[i], bytes[i] = b, b.Bytes()
	}
	return bytes, func() {
		for _, b := range taken {
			b.Free()
		}
	}
}

// A prompt is a number of tokens that say which prompt it is.
type prompt []int32

// newPrompt returns a prompt of n pages that no one else has.
func newPrompt(n int) prompt { return promptOf(rand.Uint64(), n) }

func promptOf(seed uint64, pages int) prompt {
	r := rand.New(rand.NewPCG(seed, 0))
	tokens := make(prompt, pages*pageTokens)
	for i := range tokens {
		tokens[i] = r.Int32N(1 << 17)
	}
	return tokens
}

func (w *worker) pages(t testing.TB, p prompt) []prefix.Page {
	t.Helper()
	pages, err := w.config.Keys.Pages(p)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func (w *worker) keys(t testing.TB, p prompt) []string {
	t.Helper()
	var keys []string
	for _, page := range w.pages(t, p) {
		keys = append(keys, page.Key)
	}
	return keys
}

// compute fills a page's payload with what its hash stands for.
func compute(payload []byte, hash prefix.Hash) {
	_, _ = rand.NewChaCha8(hash).Read(payload)
}

// sealed returns a page's object as its publisher makes it.
func sealed(config connector.Config, p prefix.Page) ([]byte, error) {
	b := make([]byte, config.PageBytes+page.TrailerBytes)
	compute(b[:config.PageBytes], p.Hash)
	return b, config.Sealer.Seal(b, page.ID{Hash: p.Hash, Section: config.Section})
}

// publish computes and publishes a prompt's pages.
func (w *worker) publish(ctx context.Context, t testing.TB, p prompt) (stored int, err error) {
	t.Helper()
	pages := w.pages(t, p)
	buffers, free := w.buffers(t, len(pages))
	defer free()
	for i := range pages {
		compute(buffers[i][:w.config.PageBytes], pages[i].Hash)
	}
	return w.StoreComputedPrefix(ctx, p, buffers)
}

// load loads a prompt, checks every byte that it is given, and returns the match.
func (w *worker) load(ctx context.Context, t testing.TB, p prompt) (connector.Match, error) {
	t.Helper()
	pages := w.pages(t, p)
	buffers, free := w.buffers(t, len(pages))
	defer free()
	match, err := w.LoadCachedPrefix(ctx, p, buffers)
	want := make([]byte, w.config.PageBytes)
	for i := range match.Pages {
		compute(want, pages[i].Hash)
		if !bytes.Equal(buffers[i][:w.config.PageBytes], want) {
			t.Errorf("page %d was accepted with other bytes", i)
		}
	}
	return match, err
}

// mustPublish publishes a prompt, of which want pages are to be stored newly.
func (w *worker) mustPublish(t testing.TB, p prompt, want int) {
	t.Helper()
	if stored, err := w.publish(within(t), t, p); err != nil || stored != want {
		t.Fatalf("stored %d pages, %v; want %d", stored, err, want)
	}
}

// publishWhenThereIsRoom publishes a prompt whole into a store that makes room as
// it is asked to.
func (w *worker) publishWhenThereIsRoom(t testing.TB, p prompt) {
	t.Helper()
	await(t, "room", func() bool {
		_, err := w.publish(within(t), t, p)
		if err != nil && !errors.Is(err, store.ErrFull) {
			t.Errorf("publishing into a full store: %v", err)
		}
		return err == nil
	})
}

// makeRoom leaves room for 16 pages.
func (w *worker) makeRoom(t testing.TB) {
	t.Helper()
	p := newPrompt(16)
	w.publishWhenThereIsRoom(t, p)
	for _, key := range w.keys(t, p) {
		if err := w.store.Discard(within(t), key); err != nil {
			t.Fatal(err)
		}
	}
}

// mustLoad loads a prompt, of which the first want pages are to come.
func (w *worker) mustLoad(t testing.TB, p prompt, want int) connector.Match {
	t.Helper()
	match, err := w.load(within(t), t, p)
	if err != nil || match.Pages != want {
		t.Fatalf("loaded %+v, %v; want %d pages", match, err, want)
	}
	return match
}

// counted fails the test unless the worker has rejected and discarded so much
// since it was made.
func (w *worker) counted(t testing.TB, rejected map[string]int64, discarded int64) {
	t.Helper()
	s := w.Stats()
	for reason := range rejected {
		if s.Rejected[reason] != rejected[reason] {
			t.Errorf("rejected %v, want %v", s.Rejected, rejected)
		}
	}
	if len(s.Rejected) != len(rejected) || s.PagesDiscarded != discarded || s.DiscardFailures != 0 {
		t.Errorf("stats %+v, want %v rejected and %d discarded", s, rejected, discarded)
	}
}

// Cues let a test act while a load is at a certain point. Each is used once.
type cues struct {
	store.Store
	beforeRead func() error // between the lookup and the read
	afterFirst func() error // when the first object has been read; over TCP the others wait
	err        error
}

func (c *cues) BatchGet(ctx context.Context, items []store.Item) []error {
	if act := c.beforeRead; act != nil {
		c.beforeRead = nil
		c.err = act()
	}
	if act := c.afterFirst; act != nil {
		c.afterFirst = nil
		items = slices.Clone(items)
		done := items[0].Done
		items[0].Done = func() {
			c.err = act()
			done()
		}
	}
	return c.Store.BatchGet(ctx, items)
}

// played returns what went wrong at a cue, or nil when one was used and nothing
// did.
func (c *cues) played(t testing.TB) {
	t.Helper()
	if c.beforeRead != nil || c.afterFirst != nil {
		t.Fatal("the load did not come to its cue")
	}
	if c.err != nil {
		t.Fatal(c.err)
	}
}
