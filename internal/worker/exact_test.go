package worker

import (
	"bytes"
	"fmt"
	"testing"
)

// What is reused from a store gives the same answer, digit for digit, as a slot
// primed with the same whole pages: the five likeliest of each of 16 greedy
// tokens. At a full hit one token is still evaluated.
func TestReuseEqualsAPrimedSlot(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
	}{
		{"f16, one slot", []string{"-c", "2304", "-np", "1"}},
		{"q8_0, one slot", []string{"-c", "2304", "-np", "1", "-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"}},
		{"f16, four slots", []string{"-c", "9216", "-np", "4", "-no-kvu"}},
		{"f16, four slots, unified", []string{"-c", "2304", "-np", "4", "-kvu"}},
		{"q8_0, four slots", []string{"-c", "9216", "-np", "4", "-no-kvu", "-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t)
			publisher := start(t, s, nil, c.args...)
			prompt := publisher.tokens("w", 2048)
			publisher.ask(greedy(prompt))
			published := publisher.worker.share.Load().connector.Stats().PagesPublished
			if published != 7 {
				t.Fatalf("%d pages published, want 7", published)
			}
			publisher.engine.Stop(0) // two engines at a time
			reader, primed := start(t, s, nil, c.args...), start(t, nil, nil, c.args...)
			primed.prime(prompt, 256, 512, 1792)
			for _, n := range []int{255, 256, 257, 511, 512, 513, 1793, 2048} {
				pages := (n - 1) / PageTokens
				limit := primed.primed(pages * PageTokens).ask(withSlotZero(greedy(prompt[:n])))
				got := reader.fresh(0).ask(greedy(prompt[:n]))
				if got.Timings.CacheTokens != pages*PageTokens || got.Timings.PromptTokens != n-pages*PageTokens {
					t.Errorf("%d tokens: %+v, want %d whole pages", n, got.Timings, pages)
				}
				if limit.Timings.CacheTokens != got.Timings.CacheTokens {
					t.Errorf("%d tokens: the primed slot reuses %d", n, limit.Timings.CacheTokens)
				}
				if len(got.Probabilities) < 1000 || !bytes.Equal(got.Probabilities, limit.Probabilities) {
					t.Errorf("%d tokens: other probabilities than on a primed slot:\n%s\n%s", n, got.Probabilities, limit.Probabilities)
				}
			}
		})
	}
}

// prime computes prefixes of a prompt in slot 0 and lets the engine itself save
// each.
func (r *running) prime(prompt []int32, lengths ...int) {
	r.t.Helper()
	for _, n := range lengths {
		if _, err := r.engine.Prefill(r.t.Context(), 0, prompt[:n]); err != nil {
			r.t.Fatal(err)
		}
		if _, err := r.engine.Save(r.t.Context(), 0, primedName(n), n); err != nil {
			r.t.Fatal(err)
		}
	}
}

func primedName(n int) string { return fmt.Sprintf("primed-%d", n) }

// primed fills slot 0 with a prefix that prime has computed, or with nothing.
func (r *running) primed(n int) *running {
	r.t.Helper()
	err := r.engine.Erase(r.t.Context(), 0)
	if n > 0 && err == nil {
		err = r.engine.Restore(r.t.Context(), 0, primedName(n), n)
	}
	if err != nil {
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
	for _, n := range []int{200, 257, 600, 769} {
		prompt := first.tokens("e", n)
		if err := cold.engine.Erase(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		want := cold.ask(greedy(prompt))
		if want.Timings.CacheTokens != 0 {
			t.Fatalf("%d tokens: the cold run is not cold: %+v", n, want.Timings)
		}
		for i := range 5 {
			if got := first.ask(greedy(prompt)); !bytes.Equal(got.Probabilities, want.Probabilities) {
				t.Errorf("%d tokens, request %d (%+v): other probabilities than cold", n, i, got.Timings)
			}
		}
		stored := boundary(n)
		got := first.fresh(0).ask(greedy(prompt))
		if !bytes.Equal(got.Probabilities, want.Probabilities) || got.Timings.CacheTokens != stored {
			t.Errorf("%d tokens from the store: %+v, want %d reused and the cold answer", n, got.Timings, stored)
		}
	}
}
