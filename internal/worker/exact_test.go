package worker

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"

	"ollamoon/connector"
)

// What is reused from a store gives the same answer, digit for digit, as a slot
// primed with the same whole pages: the five likeliest of each of 16 greedy
// tokens. At a full hit one token is still evaluated.
func TestReuseEqualsAPrimedSlot(t *testing.T) {
	lengths := []int{255, 256, 257, 511, 512, 513, 1793, 2048}
	q8 := []string{"-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"}
	cases := []primedCase{
		{"f16, one slot", PageTokens, lengths, []string{"-c", "2304", "-np", "1"}},
		{"q8_0, one slot", PageTokens, lengths, append([]string{"-c", "2304", "-np", "1"}, q8...)},
		{"f16, four slots", PageTokens, lengths, []string{"-c", "9216", "-np", "4", "-no-kvu"}},
		{"f16, four slots, unified", PageTokens, lengths, []string{"-c", "2304", "-np", "4", "-kvu"}},
		{"f16, pages of 64", 64, []int{64, 65, 129, 321, 400}, []string{"-c", "1024", "-np", "1"}},
	}
	if os.Getenv("OLLAMOON_FULL") == "1" {
		cases = append(
			cases,
			primedCase{"q8_0, four slots", PageTokens, lengths, append([]string{"-c", "9216", "-np", "4", "-no-kvu"}, q8...)},
			primedCase{"f16, 7,937 tokens", PageTokens, []int{7937, 8000}, []string{"-c", "8192", "-np", "1"}},
		)
	}
	for _, c := range cases {
		t.Run(c.name, c.run)
	}
}

// A primedCase is an engine's configuration, the size of pages and lengths of
// prompts.
type primedCase struct {
	name       string
	pageTokens int
	lengths    []int
	args       []string
}

// pagesOf has a worker share pages of so many tokens.
func pagesHaving(tokens int) func(*Sharing) {
	return func(s *Sharing) { s.Namespace.PageTokens, s.Ring = tokens, (s.Window+s.UBatch)/tokens }
}

func (c primedCase) run(t *testing.T) {
	s := newStore(t)
	publisher := start(t, s, pagesHaving(c.pageTokens), c.args...)
	longest := slices.Max(c.lengths)
	prompt := publisher.tokens("w", longest)
	publisher.ask(greedy(prompt))
	published := publisher.worker.share.Load().cache.Stats().PagesPublished
	if want := (longest - minBatch) / c.pageTokens; published != int64(want) {
		t.Fatalf("%d pages published, want %d", published, want)
	}
	publisher.engine.Stop(0) // two engines at a time
	reader, primed := start(t, s, pagesHaving(c.pageTokens), c.args...), start(t, nil, nil, c.args...)
	for _, n := range c.lengths {
		cached := min((n-1)/c.pageTokens, int(published)) * c.pageTokens
		limit := primed.primed(prompt[:cached]).ask(withSlotZero(greedy(prompt[:n])))
		got := reader.fresh(0).ask(greedy(prompt[:n]))
		if got.Timings.CacheTokens != cached || got.Timings.PromptTokens != n-cached {
			t.Errorf("%d tokens: %+v, want %d of whole pages reused", n, got.Timings, cached)
		}
		if limit.Timings.CacheTokens != got.Timings.CacheTokens {
			t.Errorf("%d tokens: the primed slot reuses %d", n, limit.Timings.CacheTokens)
		}
		if len(got.Probabilities) < 1000 || !bytes.Equal(got.Probabilities, limit.Probabilities) {
			t.Errorf("%d tokens: other probabilities than on a primed slot:\n%s\n%s", n, got.Probabilities, limit.Probabilities)
		}
	}
}

// primed fills slot 0 with a prompt that the engine itself has computed, and
// saved and restored where it has been asked for it before.
func (r *running) primed(prompt []int32) *running {
	r.t.Helper()
	if len(prompt) == 0 {
		if err := r.engine.Erase(r.t.Context(), 0); err != nil {
			r.t.Fatal(err)
		}
		return r
	}
	name := fmt.Sprintf("primed-%d", len(prompt))
	if r.engine.Restore(r.t.Context(), 0, name, len(prompt)) == nil {
		return r
	}
	if err := r.engine.Erase(r.t.Context(), 0); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.engine.Prefill(r.t.Context(), 0, prompt); err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.engine.Save(r.t.Context(), 0, name, len(prompt)); err != nil {
		r.t.Fatal(err)
	}
	return r
}

func withSlotZero(body map[string]any) map[string]any {
	body["id_slot"] = 0
	return body
}

// fresh empties all slots, so that only the store has anything.
func (r *running) fresh(from int) *running {
	r.t.Helper()
	slots, err := r.worker.queue.take(r.t.Context(), nil, allSlots)
	if err != nil {
		r.t.Fatal(err)
	}
	defer r.worker.queue.give(slots)
	for _, s := range slots[from:] {
		if err := r.engine.Erase(r.t.Context(), s.id); err != nil {
			r.t.Fatal(err)
		}
		s.hold(nil, 0)
	}
	return r
}

// With Exact, an answer is the cold one's wherever its prefix comes from: the same
// request ten times, from nothing, from the slot, from the store.
func TestExactEqualsCold(t *testing.T) {
	args := []string{"-c", "1024", "-np", "1", "--cache-ram", "0"}
	s := newStore(t)
	exact := func(s *Sharing) { s.Exact = true }
	first := start(t, s, exact, args...)
	cold := start(t, nil, nil, args...)
	for _, n := range []int{257, 520, 769} {
		prompt := first.tokens("e", n)
		if err := cold.engine.Erase(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		want := cold.ask(greedy(prompt))
		if want.Timings.CacheTokens != 0 {
			t.Fatalf("%d tokens: the cold run is not cold: %+v", n, want.Timings)
		}
		for i := range 2 {
			if got := first.ask(greedy(prompt)); !bytes.Equal(got.Probabilities, want.Probabilities) {
				t.Errorf("%d tokens, request %d (%+v): other probabilities than cold", n, i, got.Timings)
			}
		}
		stored := first.worker.share.Load().boundary(n)
		got := first.fresh(0).ask(greedy(prompt))
		if !bytes.Equal(got.Probabilities, want.Probabilities) || got.Timings.CacheTokens != stored {
			t.Errorf("%d tokens from the store: %+v, want %d reused and the cold answer", n, got.Timings, stored)
		}
	}
	// After one page of this prompt a batch of 22 would be left, where a cold engine
	// has 278, and a decode worker does not compute up to another page's end.
	prompt, share := first.tokens("e", 790), first.worker.share.Load()
	if err := s.Discard(t.Context(), share.key(prompt, 1)); err != nil {
		t.Fatal(err)
	}
	share.Role = connector.Decode
	if err := cold.engine.Erase(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	want, got := cold.ask(greedy(prompt)), first.fresh(0).ask(greedy(prompt))
	if !bytes.Equal(got.Probabilities, want.Probabilities) || got.Timings.CacheTokens != 0 {
		t.Errorf("with one page in the store: %+v, want none reused and the cold answer", got.Timings)
	}
}
