package bench

import (
	crand "crypto/rand"
	"math/rand/v2"

	"ollamoon/internal/results"
	"ollamoon/page"
	"ollamoon/prefix"
)

// A scenario is two requests that begin alike.
type scenario struct {
	name   string
	layout page.Layout
	tokens int // of each request
	shared int // of them, from the first, the same in both
}

// realistic has the geometry of a model of 7 billion parameters with grouped
// key/value heads, tiny that of the example of Mooncake pull request 2800.
var (
	realistic = scenario{
		name:   "realistic",
		layout: page.Layout{Layers: 28, KVHeads: 4, HeadDim: 128, PageTokens: 256, ElementBytes: 2},
		tokens: 2048,
		shared: 1792,
	}
	tiny = scenario{
		name:   "tiny",
		layout: page.Layout{Layers: 4, KVHeads: 2, HeadDim: 16, PageTokens: 8, ElementBytes: 2},
		tokens: 32,
		shared: 24,
	}
)

func (s scenario) pages() int       { return s.tokens / s.layout.PageTokens }
func (s scenario) sharedPages() int { return s.shared / s.layout.PageTokens }

// objectBytes is the size of a page's object under a seal.
func (s scenario) objectBytes(seal Seal) int {
	if seal == NoSeal {
		return s.layout.Bytes()
	}
	return s.layout.Bytes() + page.TrailerBytes
}

// keys cuts the prompts of one contender. Contenders have names of their own in
// the keys, so that none is served what another has published.
func (s scenario) keys(contender string) prefix.Config {
	return prefix.Config{Model: s.name + "-" + contender, PageTokens: s.layout.PageTokens}
}

// requests returns the tokens of request A and request B.
func (s scenario) requests(random *rand.Rand) (a, b []int32) {
	a, b = make([]int32, s.tokens), make([]int32, s.tokens)
	for i := range a {
		a[i] = random.Int32()
		b[i] = a[i]
		if i >= s.shared {
			b[i] ^= 1 << random.IntN(31)
		}
	}
	return a, b
}

// outcome describes what the store served of request B.
func (s scenario) outcome(seal Seal, hit int) results.Scenario {
	outcomes := make([]string, s.pages())
	for i := range outcomes {
		outcomes[i] = "computed"
		if i < hit {
			outcomes[i] = "hit"
		}
	}
	l := s.layout
	return results.Scenario{
		Layout: results.Layout{
			Layers: l.Layers, KVHeads: l.KVHeads, HeadDim: l.HeadDim, PageTokens: l.PageTokens, ElementBytes: l.ElementBytes,
		},
		Tokens:        s.tokens,
		TokensSkipped: hit * l.PageTokens,
		Pages:         s.pages(),
		PagesHit:      hit,
		PageOutcomes:  outcomes,
		PageBytes:     l.Bytes(),
		ObjectBytes:   s.objectBytes(seal),
	}
}

// chaCha returns a source of random numbers and bytes that no other run has.
func chaCha() *rand.ChaCha8 {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	return rand.NewChaCha8(seed)
}
