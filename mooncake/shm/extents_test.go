package shm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever is taken and given, free pages are those that a model says, in runs
// that do not touch, and take finds the lowest run that is long enough.
func TestExtents(t *testing.T) {
	const pages = 200
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	e := extents{{0, pages}}
	taken := make([]bool, pages)
	var held []extent
	for range 20_000 {
		if rng.IntN(2) == 0 {
			count := 1 + rng.IntN(20)
			want, wantOK := lowest(taken, count)
			first, ok := e.take(count)
			if ok != wantOK || ok && first != want {
				t.Fatalf("take(%d) = %d, %t; want %d, %t", count, first, ok, want, wantOK)
			}
			if ok {
				held = append(held, extent{first, count})
				fill(taken, extent{first, count}, true)
			}
		} else if len(held) > 0 {
			i := rng.IntN(len(held))
			e.give(held[i].first, held[i].count)
			fill(taken, held[i], false)
			held = slices.Delete(held, i, i+1)
		}
		if want := runs(taken, extent{0, pages}, false); !slices.Equal(e, want) {
			t.Fatalf("free %v, want %v", e, want)
		}
	}
}

func lowest(taken []bool, count int) (int, bool) {
	for _, run := range runs(taken, extent{0, len(taken)}, false) {
		if run.count >= count {
			return run.first, true
		}
	}
	return 0, false
}
