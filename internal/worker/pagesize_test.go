package worker

import (
	"errors"
	"testing"
)

// Workers whose pages have other sizes share a store and never meet in it, whoever
// comes first; each finds its own pages, which are those of prefill.
func TestPageSizesAreApart(t *testing.T) {
	s := newStore(t)
	const length = 400
	sizes := map[int]*running{}
	for _, size := range []int{64, 256} {
		sizes[size] = start(t, s, pagesHaving(size), "-c", "1024", "-np", "1", "--cache-ram", "0")
	}
	for _, order := range [][]int{{64, 256}, {256, 64}} {
		prompt := sizes[order[0]].tokens("p"+string(rune('a'+order[0]%7)), length)
		for _, size := range order {
			if got := sizes[size].fresh(0).ask(greedy(prompt)); got.Timings.CacheTokens != 0 || got.Timings.PromptTokens != length {
				t.Errorf("in the order %d, with pages of %d: %+v, want all computed", order, size, got.Timings)
			}
		}
		for _, size := range order {
			r, pages := sizes[size], (length-minBatch)/size
			if got := r.fresh(0).ask(greedy(prompt)); got.Timings.CacheTokens != pages*size {
				t.Errorf("in the order %d, with pages of %d: %+v, want %d pages reused", order, size, got.Timings, pages)
			}
			if n := r.twins("a size", prompt); n != pages {
				t.Errorf("%d pages of %d are in the store, want %d", n, size, pages)
			}
		}
	}
}

func TestPageTokens(t *testing.T) {
	for _, n := range []int{64, 128, 192, 256, 4096} {
		if err := CheckPageTokens(n); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []int{-64, 0, 1, 63, 100, 4096 + 64} {
		if err := CheckPageTokens(n); !errors.Is(err, ErrPageTokens) {
			t.Errorf("%d: %v", n, err)
		}
	}
	if _, err := newSharer(&Sharing{}, nil); !errors.Is(err, ErrPageTokens) {
		t.Errorf("without a size: %v", err)
	}
}

// A step has at least a page, and ends at one.
func TestStepsOfPages(t *testing.T) {
	for _, size := range []int{64, 192, 576, 4096} {
		s := sharer{Sharing: &Sharing{}, pageTokens: size}
		for end := size; end < 40_000; end += 7 * size {
			for at, n := 0, 0; at < end; n++ {
				next := s.step(at, end, n)
				if next-at < size || next > end || next%size != 0 {
					t.Fatalf("pages of %d up to %d: step %d from %d ends at %d", size, end, n, at, next)
				}
				at = next
			}
		}
	}
}

// An exact answer computes a prompt's end in a batch that gives the bits of a cold
// engine's, whatever the sizes of pages and batches.
func TestExactBoundary(t *testing.T) {
	for _, c := range []struct{ page, ubatch, tokens, want int }{
		{256, 512, 257, 0},
		{256, 512, 575, 0}, // 63 more than a batch, after a whole one
		{256, 512, 576, 512},
		{256, 512, 1042, 512},
		{256, 512, 1298, 1024},
		{64, 512, 1034, 512},
		{64, 512, 1098, 1024},
		{192, 512, 1034, 0},    // 384 would leave 650, and a last batch of 138
		{192, 512, 1610, 1536}, // a cold engine's last batch has 74, as this one
		{576, 512, 1098, 0},    // 576 would leave 522, and a last batch of 10
		{256, 384, 1546, 768},  // 1,024 would leave a last batch of 138
		{256, 384, 2058, 1792}, // 266 in one batch, of a cold engine's 138
		{512, 0, 1034, 512},    // the batch is not known
	} {
		s := sharer{Sharing: &Sharing{Exact: true, UBatch: c.ubatch}, pageTokens: c.page}
		if got := s.boundary(c.tokens); got != c.want {
			t.Errorf("pages of %d, batches of %d: of %d tokens %d are reused, want %d", c.page, c.ubatch, c.tokens, got, c.want)
		}
	}
}
