package simulate

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A cache does what a list would do.
func TestCacheAgainstList(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		capacity := random.IntN(12)
		c := newCache(capacity)
		var list []int32 // the latest used first
		use := func(page int32) bool {
			at := slices.Index(list, page)
			if at >= 0 {
				list = slices.Insert(slices.Delete(list, at, at+1), 0, page)
			}
			return at >= 0
		}
		for range 300 {
			pages := make([]int32, random.IntN(6))
			for i := range pages {
				pages[i] = int32(random.IntN(20))
			}
			slices.Sort(pages)
			pages = slices.Compact(pages)
			if random.IntN(2) == 0 {
				c.use(pages)
				for _, page := range slices.Backward(pages) {
					use(page)
				}
			} else {
				c.put(pages)
				pages = pages[:min(len(pages), capacity)]
				for _, page := range slices.Backward(pages) {
					use(page)
				}
				for _, page := range slices.Backward(pages) {
					if !use(page) {
						list = slices.Insert(list, 0, page)
						list = list[:min(len(list), capacity)]
					}
				}
			}
			if len(c.at) != len(list) || len(list) > capacity {
				t.Fatalf("seed %d: %d pages, want %d of %d", seed, len(c.at), len(list), capacity)
			}
			for i, at := 0, c.nodes[0].next; at != 0; i, at = i+1, c.nodes[at].next {
				if c.nodes[at].page != list[i] {
					t.Fatalf("seed %d: page %d is the %d-th, want %d", seed, c.nodes[at].page, i, list[i])
				}
			}
		}
	}
}

// A prefix is lost from its end.
func TestCacheKeepsBeginnings(t *testing.T) {
	c := newCache(4)
	c.put([]int32{1, 2, 3})
	c.put([]int32{8, 9})
	if got := c.run([]int32{1, 2, 3}); got != 2 {
		t.Errorf("%d pages of the prefix are left", got)
	}
	c.put([]int32{11, 12, 13, 14, 15, 16})
	if got := c.run([]int32{11, 12, 13, 14, 15, 16}); got != 4 {
		t.Errorf("%d pages of a prompt larger than the cache", got)
	}
}
