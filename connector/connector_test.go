package connector

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/store"
	"ollamoon/store/memory"
)

const (
	pageTokens = 8
	pageBytes  = 4096
)

func newMemory(t *testing.T) store.Store {
	t.Helper()
	s, err := memory.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func config(role Role) Config {
	return Config{
		Role: role, Keys: prefix.Config{Model: "m", PageTokens: pageTokens},
		PageBytes: pageBytes, Sealer: &page.Sealer{},
	}
}

func connect(t *testing.T, s store.Store, config Config) *Connector {
	t.Helper()
	c, err := New(s, config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// prompt is n tokens of which the first shared are the same for all prompts.
func prompt(shared, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(i)
		if i >= shared {
			tokens[i] = 1000 + rand.Int32N(1<<20)
		}
	}
	return tokens
}

// buffers is n pages of random payload.
func buffers(c *Connector, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = make([]byte, c.ObjectBytes())
		for j := range c.config.PageBytes {
			out[i][j] = byte(rand.Uint32())
		}
	}
	return out
}

// empty is n buffers to load into.
func empty(c *Connector, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = make([]byte, c.ObjectBytes())
	}
	return out
}

func publish(t *testing.T, c *Connector, tokens []int32, pages [][]byte, want int) {
	t.Helper()
	stored, err := c.StoreComputedPrefix(t.Context(), tokens, pages)
	if err != nil || stored != want {
		t.Fatalf("stored %d pages, %v; want %d", stored, err, want)
	}
}

// loaded checks that a load brings the first want pages of pages.
func loaded(t *testing.T, c *Connector, tokens []int32, pages [][]byte, want int) Match {
	t.Helper()
	got := empty(c, len(pages))
	match, err := c.LoadCachedPrefix(t.Context(), tokens, got)
	if err != nil || match.Pages != want || match.Tokens != want*pageTokens {
		t.Fatalf("loaded %+v, %v; want %d pages", match, err, want)
	}
	for i := range want {
		if !bytes.Equal(got[i][:pageBytes], pages[i][:pageBytes]) {
			t.Errorf("page %d has other bytes", i)
		}
	}
	return match
}

func keyOf(t *testing.T, c *Connector, tokens []int32, i int) string {
	t.Helper()
	pages, err := c.config.Keys.Pages(tokens)
	if err != nil {
		t.Fatal(err)
	}
	return c.config.Section.Key(pages[i].Key)
}

// The example of pull request 2800: three of four pages are shared.
func TestSharedPrefix(t *testing.T) {
	for name, sealer := range map[string]*page.Sealer{"sealed": {}, "bare": nil} {
		t.Run(name, func(t *testing.T) {
			s := newMemory(t)
			cfg := config(Prefill)
			cfg.Sealer = sealer
			prefill := connect(t, s, cfg)
			cfg.Role = Decode
			decode := connect(t, s, cfg)
			a, b := prompt(24, 32), prompt(24, 32)
			pages := buffers(prefill, 4)
			publish(t, prefill, a, pages, 4)
			match := loaded(t, decode, b, pages, 3)
			if !errors.Is(match.Stopped, store.ErrNotFound) {
				t.Errorf("stopped by %v, want a miss", match.Stopped)
			}
			if match := loaded(t, decode, a, pages, 4); match.Stopped != nil {
				t.Errorf("a full load was stopped by %v", match.Stopped)
			}
			publish(t, prefill, b, append(pages[:3:3], buffers(prefill, 1)...), 1)
			publish(t, prefill, b, pages, 0)
			stats := decode.Stats()
			if stats.PagesLookedUp != 8 || stats.PagesHit != 7 || stats.BytesLoaded != int64(7*decode.ObjectBytes()) {
				t.Errorf("stats %+v", stats)
			}
			if got := prefill.Stats().PagesPublished; got != 5 {
				t.Errorf("%d pages published, want 5", got)
			}
		})
	}
}

func TestBarePagesAreThoseOfPullRequest2800(t *testing.T) {
	s := newMemory(t)
	cfg := config(Mixed)
	cfg.Sealer = nil
	c := connect(t, s, cfg)
	tokens, pages := prompt(8, 8), buffers(c, 1)
	publish(t, c, tokens, pages, 1)
	got := make([]byte, pageBytes)
	if err := s.BatchGet(t.Context(), []store.Item{{Key: keyOf(t, c, tokens, 0), Bytes: got}})[0]; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, pages[0]) {
		t.Error("the object is not the payload")
	}
}

func TestRoles(t *testing.T) {
	s := newMemory(t)
	c := connect(t, s, config(Decode))
	if _, err := c.StoreComputedPrefix(t.Context(), prompt(8, 8), buffers(c, 1)); !errors.Is(err, ErrRole) {
		t.Errorf("publishing as decode: %v", err)
	}
	for _, role := range []Role{Mixed, Prefill, Decode} {
		parsed, err := ParseRole(role.String())
		if err != nil || parsed != role || !role.Loads() || role.Publishes() != (role != Decode) {
			t.Errorf("role %v: parsed %v, %v", role, parsed, err)
		}
	}
	if _, err := ParseRole("router"); err == nil {
		t.Error("an unknown role was parsed")
	}
	if _, err := New(s, config(Role(3))); err == nil {
		t.Error("an unknown role was taken")
	}
}

func TestBoundsOfAPrompt(t *testing.T) {
	c := connect(t, newMemory(t), config(Mixed))
	pages := buffers(c, 4)
	publish(t, c, prompt(7, 7), pages, 0)      // shorter than a page
	publish(t, c, prompt(17, 17), pages, 2)    // the rest is no page
	publish(t, c, prompt(32, 32), pages, 2)    // two are there
	loaded(t, c, prompt(32, 32), pages[:3], 3) // three buffers
	loaded(t, c, prompt(7, 7), pages, 0)
	loaded(t, c, nil, pages, 0)
	if _, err := c.LoadCachedPrefix(t.Context(), prompt(8, 8), [][]byte{make([]byte, pageBytes)}); !errors.Is(err, ErrBuffer) {
		t.Errorf("a buffer without room for the seal: %v", err)
	}
	for name, bad := range map[string]Config{
		"no model":      {Keys: prefix.Config{PageTokens: 8}, PageBytes: 1},
		"no page size":  {Keys: prefix.Config{Model: "m", PageTokens: 8}},
		"no page token": {Keys: prefix.Config{Model: "m"}, PageBytes: 1},
	} {
		if _, err := New(newMemory(t), bad); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestPublishPassesOverPagesNotAtHand(t *testing.T) {
	c := connect(t, newMemory(t), config(Mixed))
	tokens, pages := prompt(32, 32), buffers(c, 4)
	publish(t, c, tokens, [][]byte{nil, nil, pages[2], pages[3]}, 2)
	loaded(t, c, tokens, pages, 0)
	publish(t, c, tokens, pages[:2], 2)
	loaded(t, c, tokens, pages, 4)
	if _, err := c.LoadCachedPrefix(t.Context(), tokens, [][]byte{nil}); !errors.Is(err, ErrBuffer) {
		t.Errorf("loading without a buffer: %v", err)
	}
}

func TestARunEndsAtTheFirstFailure(t *testing.T) {
	f := &flaky{Store: newMemory(t)}
	c := connect(t, f, config(Mixed))
	tokens, pages := prompt(32, 32), buffers(c, 4)
	publish(t, c, tokens, pages, 4)
	reads := 0
	f.get = func(ctx context.Context, items []store.Item) []error {
		reads++
		errs := f.Store.BatchGet(ctx, items)
		errs[2] = store.ErrUnavailable
		return errs
	}
	if match := loaded(t, c, tokens, pages, 2); !errors.Is(match.Stopped, store.ErrUnavailable) || reads != 1 {
		t.Errorf("stopped by %v after %d reads", match.Stopped, reads)
	}
	// An evicted page ends the run too, though later ones are there.
	f.get = nil
	if err := f.Discard(t.Context(), keyOf(t, c, tokens, 1)); err != nil {
		t.Fatal(err)
	}
	loaded(t, c, tokens, pages, 1)
	f.exist = func(keys []string) ([]bool, error) { return []bool{true, true, true, true}, nil }
	if match := loaded(t, c, tokens, pages, 1); !errors.Is(match.Stopped, store.ErrNotFound) {
		t.Errorf("evicted between lookup and read: stopped by %v", match.Stopped)
	}
	f.exist = func([]string) ([]bool, error) { return nil, store.ErrUnavailable }
	if _, err := c.LoadCachedPrefix(t.Context(), tokens, pages); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a lookup that fails: %v", err)
	}
	if _, err := c.StoreComputedPrefix(t.Context(), tokens, pages); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a lookup that fails before a publish: %v", err)
	}
}

func TestPublishReportsWhatNobodyStored(t *testing.T) {
	f := &flaky{Store: newMemory(t)}
	c := connect(t, f, config(Mixed))
	f.put = func(context.Context, []store.Item) []error { return []error{store.ErrExists, nil, store.ErrFull, nil} }
	stored, err := c.StoreComputedPrefix(t.Context(), prompt(32, 32), buffers(c, 4))
	if stored != 2 || !errors.Is(err, store.ErrFull) {
		t.Errorf("stored %d, %v", stored, err)
	}
	f.put = func(context.Context, []store.Item) []error { return store.Errors(4, store.ErrExists) }
	if stored, err := c.StoreComputedPrefix(t.Context(), prompt(32, 32), buffers(c, 4)); stored != 0 || err != nil {
		t.Errorf("someone else stored them all: %d, %v", stored, err)
	}
}

// Many workers publish and load the same prefix at once: one object a key, all
// succeed, the bytes are one publisher's.
func TestManyWorkersAtOnce(t *testing.T) {
	s := newMemory(t)
	tokens := prompt(32, 32)
	pages := buffers(connect(t, s, config(Mixed)), 4)
	var total sync.Map
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c, err := New(s, config(Mixed))
			if err != nil {
				t.Error(err)
				return
			}
			own := make([][]byte, len(pages))
			for i := range own {
				own[i] = bytes.Clone(pages[i])
			}
			stored, err := c.StoreComputedPrefix(context.Background(), tokens, own)
			if err != nil {
				t.Error(err)
			}
			total.Store(i, stored)
			got := empty(c, 4)
			match, err := c.LoadCachedPrefix(context.Background(), tokens, got)
			if err != nil || match.Pages != 4 || !bytes.Equal(got[3][:pageBytes], pages[3][:pageBytes]) {
				t.Errorf("loaded %+v, %v", match, err)
			}
		})
	}
	wg.Wait()
	sum := 0
	total.Range(func(_, v any) bool { sum += v.(int); return true })
	if sum != 4 {
		t.Errorf("%d pages were stored newly, want 4", sum)
	}
}

// Sections of one page have objects of their own and never stand in for each
// other.
func TestSectionsAreApart(t *testing.T) {
	s := newMemory(t)
	full, sliding := config(Mixed), config(Mixed)
	sliding.Section = page.Sliding
	f, w := connect(t, s, full), connect(t, s, sliding)
	tokens, pages := prompt(16, 16), buffers(f, 2)
	publish(t, f, tokens, pages, 2)
	loaded(t, w, tokens, pages, 0)
	own := buffers(w, 2)
	publish(t, w, tokens, own, 2)
	loaded(t, w, tokens, own, 2)
	loaded(t, f, tokens, pages, 2)
}

func TestAKeyedSealKeepsOthersOut(t *testing.T) {
	s := newMemory(t)
	keyed := config(Mixed)
	var err error
	if keyed.Sealer, err = page.NewKeyedSealer(bytes.Repeat([]byte{1}, page.KeyBytes)); err != nil {
		t.Fatal(err)
	}
	stranger, owner := connect(t, s, config(Mixed)), connect(t, s, keyed)
	tokens, pages := prompt(16, 16), buffers(owner, 2)
	publish(t, stranger, tokens, buffers(owner, 2), 2)
	if match := loaded(t, owner, tokens, pages, 0); !errors.Is(match.Stopped, page.ErrKind) {
		t.Errorf("stopped by %v", match.Stopped)
	}
	publish(t, owner, tokens, pages, 2)
	loaded(t, owner, tokens, pages, 2)
}
