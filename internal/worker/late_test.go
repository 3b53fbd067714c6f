package worker

import (
	"encoding/json"
	"testing"
	"time"
)

// Where saves cost much beside computing, pages are published after the answer,
// which does not wait for them, and are those of a prefill all the same.
func TestPagesArePublishedLater(t *testing.T) {
	s := newStore(t)
	r := start(t, s, func(s *Sharing) { s.MaxSaving = DefaultSaving }, "-c", "2048", "-np", "1", "--cache-ram", "0")
	dear := func() {
		share := r.worker.share.Load()
		for range 100 { // so that what is observed meanwhile counts little
			share.estimates.saved(time.Hour, 1000)
		}
	}
	dear()
	r.worker.share.Load().estimates.computed(time.Second, 1000)
	prompt := r.tokens("l", 900)
	var got answer
	if err := json.Unmarshal(r.post("/completion", greedy(prompt)), &got); err != nil {
		t.Fatal(err)
	}
	if got.Timings.CacheTokens != 0 || got.Timings.PromptTokens != len(prompt) {
		t.Errorf("%+v, want all computed at once", got.Timings)
	}
	r.settled()
	stored := r.stored(prompt)
	if len(stored) != 3 {
		t.Fatalf("%d pages stored, want 3", len(stored))
	}
	// A longer prompt on the same slot publishes what is new.
	dear()
	longer := append(prompt, r.tokens("other", 300)...)
	r.post("/completion", greedy(longer))
	r.settled()
	if got := len(r.stored(longer)); got != 4 {
		t.Errorf("%d pages stored of the longer prompt, want 4", got)
	}
	for i, want := range r.computed(longer, 4) {
		if got := r.stored(longer)[i]; string(got) != string(want) {
			t.Errorf("page %d differs from a computed one", i)
		}
	}
}

// settled waits until all slots are given back and what they were kept for is
// published, both of which may be after the answer.
func (r *running) settled() {
	r.t.Helper()
	for deadline := time.Now().Add(patience); r.worker.queue.idle() < len(r.worker.queue.slots); {
		if time.Now().After(deadline) {
			r.t.Fatal("a slot has not been given back")
		}
		time.Sleep(time.Millisecond)
	}
	r.worker.publishes.Wait()
}

func TestEarlyOrLater(t *testing.T) {
	for _, c := range []struct {
		save, compute time.Duration // of 1,000 tokens
		window        int
		want          bool
	}{
		{0, 0, 0, true},
		{time.Millisecond, 0, 0, true},
		{0, time.Second, 0, true}, // not known
		{10 * time.Millisecond, time.Second, 0, true},
		{20 * time.Millisecond, time.Second, 0, false},
		{time.Second, time.Second, 512, true}, // later its rows would have left the window
	} {
		s := sharerOf(Sharing{Window: c.window})
		if c.save > 0 {
			s.estimates.saved(c.save, 1000)
		}
		if c.compute > 0 {
			s.estimates.computed(c.compute, 1000)
		}
		if got := s.early(); got != c.want {
			t.Errorf("%+v: early is %t", c, got)
		}
	}
}
