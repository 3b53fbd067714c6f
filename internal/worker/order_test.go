package worker

import (
	"bytes"
	"testing"
)

// Slots that share one cache: what is loaded while another slot has had a
// conversation goes on behind its own cells, and is published, with the rows of a
// slot that computed all of it.
func TestLoadedBesideAnIdleSlot(t *testing.T) {
	s := newStore(t)
	args := []string{"-c", "4096"} // and no number of slots
	first, second := start(t, s, nil, args...), start(t, s, nil, args...)
	begin := first.tokens("begin", 2*PageTokens)
	prompt := append(begin[:len(begin):len(begin)], first.tokens("more", PageTokens+100)...)
	first.ask(greedy(append(begin[:len(begin):len(begin)], first.tokens("end", 70)...)))
	second.ask(greedy(second.tokens("other", 2*PageTokens)))
	if got := second.ask(greedy(prompt)); got.Timings.CacheTokens != len(begin) {
		t.Errorf("%d tokens were loaded, want %d", got.Timings.CacheTokens, len(begin))
	}
	stored := second.stored(prompt)
	if len(stored) != 3 {
		t.Fatalf("%d pages of the prompt are in the store, want 3", len(stored))
	}
	for i, page := range first.computed(prompt, 3) {
		if !bytes.Equal(page, stored[i]) {
			t.Errorf("page %d differs from one that is computed", i)
		}
	}
}
