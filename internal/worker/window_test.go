package worker

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"ollamoon/page"
)

// A cache with a sliding window: all pages of the layers with the whole context
// are reused, and those of the window at the prefix's end of the others. What is
// reused gives the same answer, digit for digit, as a slot primed with the same
// pages in the same steps; an engine reuses nothing that is not longer than its
// window.
func TestSlidingWindow(t *testing.T) {
	if !full() {
		slidingWindow(t, PageTokens, 257, 1793)
		return
	}
	slidingWindow(t, PageTokens, 257, 769, 1025, 1281, 1793, 4097)
	slidingWindow(t, 64, 769, 1281, 1793, 1985)
}

func slidingWindow(t *testing.T, pageTokens int, lengths ...int) {
	args := gemma(t, "-c", "4608", "-np", "1", "--cache-ram", "0")
	s := newStore(t)
	publisher := start(t, s, pagesHaving(pageTokens), args...)
	prompts := map[int][]int32{}
	for i, n := range lengths {
		prompt := publisher.tokens(string(rune('a'+i)), n+minBatch-1)
		prompts[n] = prompt
		if got := publisher.fresh(0).ask(greedy(prompt)); got.Timings.CacheTokens != 0 || got.Timings.PromptTokens != len(prompt) {
			t.Errorf("the first request: %+v, want %d computed", got.Timings, len(prompt))
		}
	}
	publisher.engine.Stop(0) // two engines at a time
	reader, primed := start(t, s, pagesHaving(pageTokens), args...), start(t, nil, nil, args...)
	for _, n := range lengths {
		prompt, cached := prompts[n][:n], (n-1)/pageTokens*pageTokens
		if cached <= gemmaWindow {
			cached = 0
		}
		limit := primed.slid(prompt[:cached], pageTokens).ask(withSlotZero(greedy(prompt)))
		got := reader.fresh(0).ask(greedy(prompt))
		if got.Timings.CacheTokens != cached || limit.Timings.CacheTokens != cached {
			t.Errorf("%d tokens: %d reused, %d on the primed slot, want %d", n, got.Timings.CacheTokens, limit.Timings.CacheTokens, cached)
		}
		if len(got.Probabilities) < 1000 || !bytes.Equal(got.Probabilities, limit.Probabilities) {
			t.Errorf("%d tokens: other probabilities than on a primed slot", n)
		}
	}
	t.Run("a page of the window is missing", func(t *testing.T) {
		prompt, last := prompts[1793][:1793], 1792/pageTokens-1
		share := reader.worker.share.Load()
		if err := s.Discard(t.Context(), page.Sliding.Key(share.key(prompt, last))); err != nil {
			t.Fatal(err)
		}
		// A prefix that ends before it has its window still.
		if got := reader.fresh(0).ask(greedy(prompt)); got.Timings.CacheTokens != last*pageTokens {
			t.Errorf("%d tokens reused, want %d pages of %d", got.Timings.CacheTokens, last, pageTokens)
		}
	})
}

// slid fills slot 0 with a prompt that the engine itself has computed, in the
// steps of a worker: with a sliding window the last bits of a row depend on where
// its batch began and ended.
func (r *running) slid(prompt []int32, pageTokens int) *running {
	r.t.Helper()
	if err := r.engine.Erase(r.t.Context(), 0); err != nil {
		r.t.Fatal(err)
	}
	s := &sharer{Sharing: &Sharing{Window: gemmaWindow}, pageTokens: pageTokens}
	for at, n := 0, 0; at < len(prompt); n++ {
		at = s.step(at, len(prompt), n)
		if _, err := r.engine.Prefill(r.t.Context(), 0, prompt[:at]); err != nil {
			r.t.Fatal(err)
		}
	}
	return r
}

func TestWindowsThatCannotBeShared(t *testing.T) {
	for name, s := range map[string]Sharing{
		"shorter than a page": {Window: 128},
		"exact answers":       {Window: 512, Exact: true},
	} {
		s.Namespace.PageTokens = PageTokens
		if _, err := newSharer(&s, nil); !errors.Is(err, ErrSections) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Steps end at pages, past the window first, and then a window apart at most.
func TestStepsOfAWindow(t *testing.T) {
	for _, c := range []struct {
		window, at, end int
		want            []int
	}{
		{512, 0, 2048, []int{512, 768, 1280, 1792, 2048}},
		{512, 300, 1024, []int{512, 768, 1024}},
		{512, 1024, 2048, []int{1536, 2048}},
		{700, 0, 1792, []int{512, 768, 1280, 1792}},
		{1024, 0, 1536, []int{1024, 1280, 1536}},
	} {
		s := sharerOf(Sharing{Window: c.window})
		var got []int
		for at, n := c.at, 0; at < c.end; n++ {
			at = s.step(at, c.end, n)
			got = append(got, at)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("window %d from %d to %d: steps end at %d, want %d", c.window, c.at, c.end, got, c.want)
		}
	}
	s := sharerOf(Sharing{Window: 512})
	if got := s.publishable(600); got != 0 {
		t.Errorf("of 600 tokens %d are published, which nobody can reuse", got)
	}
}
