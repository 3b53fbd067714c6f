package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"ollamoon/slotfile"
	"ollamoon/store"
	"ollamoon/store/faulty"
)

// Two conversations that take turns on one slot reuse at least what a stock
// engine reuses, with its own memory of conversations.
func TestConversationsInTurn(t *testing.T) {
	args := []string{"-c", "2048", "-np", "1"}
	stock := start(t, nil, nil, args...)
	shared := start(t, newStore(t), nil, args...)
	a, b := text(150, "a"), text(150, "b")
	for i, prompt := range []string{a, b, a, b, a + "more", b + "more"} {
		want := stock.ask(greedy(prompt))
		got := shared.ask(greedy(prompt))
		if got.Timings.CacheTokens < want.Timings.CacheTokens {
			t.Errorf("request %d reuses %d tokens, a stock engine %d", i, got.Timings.CacheTokens, want.Timings.CacheTokens)
		}
		if got.Content != want.Content {
			t.Errorf("request %d: %q, want %q", i, got.Content, want.Content)
		}
	}
}

// stored are the pages that a store has of a prompt, from its first.
func (r *running) stored(tokens []int32) [][]byte {
	r.t.Helper()
	s := r.worker.share.Load()
	var pages [][]byte
	for i := range len(tokens) / s.pageTokens {
		object := make([]byte, s.parts[0].ObjectBytes())
		err := s.Store.BatchGet(r.t.Context(), []store.Item{{Key: s.key(tokens, i), Bytes: object}})[0]
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			r.t.Fatal(err)
		}
		pages = append(pages, object[:s.payloadBytes(0)])
	}
	return pages
}

// computed are the pages of a prompt as an engine computes them when nothing is
// reused.
func (r *running) computed(tokens []int32, n int) [][]byte {
	r.t.Helper()
	pageTokens := r.worker.share.Load().pageTokens
	if err := r.engine.Erase(r.t.Context(), 0); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.engine.Prefill(r.t.Context(), 0, tokens[:n*pageTokens]); err != nil {
		r.t.Fatal(err)
	}
	const name = "computed"
	if _, err := r.engine.Save(r.t.Context(), 0, name, n*pageTokens); err != nil {
		r.t.Fatal(err)
	}
	data := r.slotFile(name)
	file, err := slotfile.Parse(bytes.NewReader(data), int64(len(data)), len(tokens))
	if err != nil {
		r.t.Fatal(err)
	}
	pages := make([][]byte, n)
	for i := range pages {
		pages[i] = make([]byte, file.Sections[0].Shape.PageBytes(pageTokens))
		if err := file.Sections[0].ReadPage(pages[i], i, pageTokens); err != nil {
			r.t.Fatal(err)
		}
	}
	return pages
}

// A chat goes on, a context shifts, chunks are reused by shifting: no page of
// generated or shifted rows is published. Every page that is in the store equals
// its recomputed twin.
func TestPublishedPagesAreThoseOfPrefill(t *testing.T) {
	for name, c := range map[string]struct {
		context string
		args    []string
		turns   func(r *running) (prompts [][]int32)
	}{
		"chat": {"2048", nil, func(r *running) (prompts [][]int32) {
			var messages []map[string]string
			for _, words := range []string{text(150, "q"), text(100, "r"), text(100, "s")} {
				messages = append(messages, map[string]string{"role": "user", "content": words})
				var got struct {
					Choices []struct{ Message struct{ Content string } }
				}
				request := map[string]any{"messages": messages, "max_tokens": 40, "temperature": 0}
				prompts = append(prompts, r.chatTokens(request))
				body := r.post("/v1/chat/completions", request)
				if err := json.Unmarshal(body, &got); err != nil || len(got.Choices) != 1 {
					r.t.Fatalf("%.300s: %v", body, err)
				}
				messages = append(messages, map[string]string{"role": "assistant", "content": got.Choices[0].Message.Content})
			}
			return prompts
		}},
		"context shift": {"1024", []string{"--context-shift", "--keep", "4"}, func(r *running) [][]int32 {
			prompt := r.tokens("x", 1000)
			body := greedy(prompt)
			body["n_predict"], body["ignore_eos"] = 100, true
			if got := r.ask(body); !got.Truncated {
				r.t.Error("the context was not shifted")
			}
			r.ask(greedy(prompt[:900]))
			return [][]int32{prompt}
		}},
		"chunks reused by shifting": {"1024", []string{"--cache-reuse", "32"}, func(r *running) [][]int32 {
			all := r.tokens("y", 900)
			cut := append(append([]int32{}, all[:300]...), all[400:]...)
			r.ask(greedy(all))
			if got := r.ask(greedy(cut)); got.Timings.CacheTokens <= 300 {
				r.t.Errorf("%d tokens are reused, none by shifting", got.Timings.CacheTokens)
			}
			return [][]int32{all, cut}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"-c", c.context, "-np", "1"}, c.args...)
			seen := &recorder{Store: newStore(t), keys: map[string]bool{}}
			r := start(t, seen, nil, args...)
			prompts := c.turns(r)
			r.worker.publishes.Wait()
			if len(seen.keys) == 0 {
				t.Fatal("nothing was published")
			}
			for _, tokens := range prompts {
				pages := r.stored(tokens)
				if len(pages) == 0 {
					continue
				}
				for i, want := range r.computed(tokens, len(pages)) {
					delete(seen.keys, r.worker.share.Load().key(tokens, i))
					if !bytes.Equal(pages[i], want) {
						t.Errorf("page %d of a prompt of %d tokens is not that of prefill", i, len(tokens))
					}
				}
			}
			if len(seen.keys) > 0 {
				t.Errorf("published under other keys than the prompts': %v", seen.keys)
			}
		})
	}
}

// A recorder notes under which keys pages are put.
type recorder struct {
	store.Store
	mu   sync.Mutex
	keys map[string]bool
}

// BatchPut notes the keys.
func (r *recorder) BatchPut(ctx context.Context, items []store.Item) []error {
	r.mu.Lock()
	for _, item := range items {
		r.keys[item.Key] = true
	}
	r.mu.Unlock()
	return r.Store.BatchPut(ctx, items)
}

// chatTokens are the tokens of a chat's prompt.
func (r *running) chatTokens(request map[string]any) []int32 {
	r.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		r.t.Fatal(err)
	}
	prompt, err := r.engine.ApplyTemplate(r.t.Context(), body)
	if err != nil {
		r.t.Fatal(err)
	}
	tokens, err := r.engine.Tokenize(r.t.Context(), prompt)
	if err != nil {
		r.t.Fatal(err)
	}
	return tokens
}

// Caches that differ in what they hold never meet in a store.
func TestNamespacesAreApart(t *testing.T) {
	s := newStore(t)
	args := []string{"-c", "1024", "-np", "1"}
	tenant := func(name string) func(*Sharing) {
		return func(s *Sharing) { s.Namespace.Tenant = name }
	}
	one := start(t, s, tenant("one"), args...)
	prompt := one.tokens("n", 600)
	one.ask(greedy(prompt))
	two := start(t, s, tenant("two"), args...)
	if got := two.ask(greedy(prompt)); got.Timings.CacheTokens != 0 {
		t.Errorf("another tenant reuses %d tokens", got.Timings.CacheTokens)
	}
	if got := one.fresh(0).ask(greedy(prompt)); got.Timings.CacheTokens != 512 {
		t.Errorf("the same tenant reuses %d tokens, want 512", got.Timings.CacheTokens)
	}
}

// A damaged page changes nothing but counters, and the next request finds a good
// one. So does a store that says yes and fails, and one that is too slow.
func TestBadStores(t *testing.T) {
	s := faulty.New(newStore(t))
	r := start(t, s, func(s *Sharing) { s.Deadline = 2 * time.Second }, "-c", "1024", "-np", "1", "--cache-ram", "0")
	prompt := r.tokens("d", 600)
	want := r.ask(greedy(prompt))
	share := r.worker.share.Load()
	flip := func(i int) {
		key := share.key(prompt, i)
		object := make([]byte, share.parts[0].ObjectBytes())
		if err := s.BatchGet(t.Context(), []store.Item{{Key: key, Bytes: object}})[0]; err != nil {
			t.Fatal(err)
		}
		object[1000] ^= 4
		if err := errors.Join(s.Discard(t.Context(), key), s.BatchPut(t.Context(), []store.Item{{Key: key, Bytes: object}})[0]); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, cached int) {
		t.Helper()
		got := r.fresh(0).ask(greedy(prompt))
		if got.Content != want.Content {
			t.Errorf("%s: %q, want %q", what, got.Content, want.Content)
		}
		if got.Timings.CacheTokens != cached {
			t.Errorf("%s: %d tokens reused, want %d", what, got.Timings.CacheTokens, cached)
		}
	}
	flip(1)
	check("a flipped bit", 256)
	if got := share.cache.Stats().Rejected["sum"]; got != 1 {
		t.Errorf("%d pages rejected", got)
	}
	check("after a flipped bit", 512)
	s.Add(faulty.Fault{Ops: faulty.Get, Err: store.ErrUnavailable})
	check("a store that says yes and fails", 0)
	s.Clear()
	s.Add(faulty.Fault{Ops: faulty.Exist, Hang: true})
	check("a store that hangs", 0)
	s.Clear()
	check("a store that works again", 512)
}

// Two requests for the same uncached prefix compute it once.
func TestTheSamePrefixIsComputedOnce(t *testing.T) {
	r := start(t, newStore(t), nil, "-c", "2048", "-np", "2", "-no-kvu")
	prompt := r.tokens("o", 600)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var cached []int
	for i := range 2 {
		wg.Go(func() {
			got := r.ask(greedy(append(append([]int32{}, prompt...), int32(100+i))))
			mu.Lock()
			defer mu.Unlock()
			cached = append(cached, got.Timings.CacheTokens)
		})
	}
	wg.Wait()
	if cached[0]+cached[1] != 512 || cached[0] != 0 && cached[1] != 0 {
		t.Errorf("reused %v tokens, want 0 and 512", cached)
	}
}
