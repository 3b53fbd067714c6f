package worker

import (
	"testing"

	"ollamoon/internal/engine/enginetest"
)

// The page at a prompt's end is not published with it, since too few tokens would
// be left to compute; it is when a longer prompt follows on the same slot.
func TestTheEndOfAPromptIsPublishedByALongerOne(t *testing.T) {
	s := newStore(t)
	r := start(t, s, nil, "-c", "2048", "-np", "1", "--cache-ram", "0")
	// It goes on in another way than the model would.
	prompt := append(r.tokens("s", 830), r.tokens("other", 270)...)
	r.ask(greedy(prompt[:830]))
	if got := len(r.stored(prompt)); got != 2 {
		t.Errorf("%d pages after 830 tokens, want 2", got)
	}
	if got := r.ask(greedy(prompt)); got.Timings.CacheTokens < 829 {
		t.Errorf("the longer prompt reuses %d tokens", got.Timings.CacheTokens)
	}
	if got := len(r.stored(prompt)); got != 4 {
		t.Fatalf("%d pages after 1,100 tokens, want 4", got)
	}
	// They are what a prefill makes of them.
	for i, want := range r.computed(prompt, 4) {
		if got := r.stored(prompt)[i]; string(got) != string(want) {
			t.Errorf("page %d differs from a computed one", i)
		}
	}
}

// A conversation that goes on is published from its beginning into a store that has
// lost it.
func TestAStoreThatHasLostAConversation(t *testing.T) {
	s := newStore(t)
	r := start(t, s, nil, "-m", enginetest.Small(t), "-c", "2048", "-np", "1", "--cache-ram", "0")
	prompt := append(r.tokens("s", 830), r.tokens("other", 270)...)
	r.ask(greedy(prompt[:830]))
	for i := range 2 {
		if err := s.Discard(t.Context(), r.worker.share.Load().key(prompt, i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(r.stored(prompt)); got != 0 {
		t.Fatalf("%d pages are left", got)
	}
	r.ask(greedy(prompt))
	if got := len(r.stored(prompt)); got != 4 {
		t.Errorf("%d pages after the next turn, want 4", got)
	}
}
