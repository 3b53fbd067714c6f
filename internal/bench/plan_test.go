package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestRequestsShareTheirBeginning(t *testing.T) {
	for _, c := range []struct {
		scenario
		pages, shared, pageBytes int
	}{{realistic, 8, 7, 14680064}, {tiny, 4, 3, 4096}} {
		if c.scenario.pages() != c.pages || c.sharedPages() != c.shared || c.layout.Bytes() != c.pageBytes {
			t.Errorf("%s: %d pages of %d bytes, %d shared", c.name, c.scenario.pages(), c.layout.Bytes(), c.sharedPages())
		}
		a, b := c.requests(rand.New(rand.NewPCG(1, 2)))
		if len(a) != c.tokens || len(b) != c.tokens || !slices.Equal(a[:c.scenario.shared], b[:c.scenario.shared]) {
			t.Fatalf("%s: the requests do not begin alike", c.name)
		}
		for i := c.scenario.shared; i < c.tokens; i++ {
			if a[i] == b[i] || a[i] < 0 || b[i] < 0 {
				t.Fatalf("%s: token %d is %d in A, %d in B", c.name, i, a[i], b[i])
			}
		}
		next, _ := c.requests(rand.New(rand.NewPCG(1, 3)))
		if slices.Equal(a, next) {
			t.Errorf("%s: two requests A are the same", c.name)
		}
	}
}

func TestOutcome(t *testing.T) {
	s := tiny.outcome(Checksum, 3)
	if want := []string{"hit", "hit", "hit", "computed"}; !slices.Equal(s.PageOutcomes, want) {
		t.Errorf("outcomes %v, want %v", s.PageOutcomes, want)
	}
	if s.TokensSkipped != 24 || s.Tokens != 32 || s.PagesHit != 3 || s.PageBytes != 4096 || s.ObjectBytes != 4176 {
		t.Errorf("%+v", s)
	}
	if got := tiny.outcome(NoSeal, 0).ObjectBytes; got != 4096 {
		t.Errorf("an unsealed object of %d bytes", got)
	}
}
