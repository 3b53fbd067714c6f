package trace

import (
	"fmt"
	"math/rand/v2"
)

// Scale returns the trace with blocks of another number of tokens. Lengths of
// prompts and answers change in proportion; each keeps a token.
func (t *Trace) Scale(blockTokens int) (*Trace, error) {
	if blockTokens <= 0 || blockTokens > maxTokens {
		return nil, fmt.Errorf("%w: blocks cannot be scaled to %d tokens", ErrTrace, blockTokens)
	}
	scaled := func(n int) int { return max(1, int(int64(n)*int64(blockTokens)/int64(t.BlockTokens))) }
	s := &Trace{BlockTokens: blockTokens}
	for _, q := range t.Requests {
		whole := len(q.Blocks) - 1
		q.Input = whole*blockTokens + scaled(q.Input-whole*t.BlockTokens)
		if q.Output > 0 {
			q.Output = scaled(q.Output)
		}
		s.Requests = append(s.Requests, q)
	}
	return s, nil
}

// First returns the trace of the first n requests, or of all if there are fewer.
func (t *Trace) First(n int) *Trace {
	return &Trace{Requests: t.Requests[:min(n, len(t.Requests))], BlockTokens: t.BlockTokens}
}

// Small returns a trace that a small model on a processor plays in minutes, in the
// shape of Mooncake's conversation trace: all prompts begin alike, and
// conversations go on with more of the same. Blocks have so many tokens. Some
// requests repeat the beginning of another and little more. Equal arguments give
// equal traces.
func Small(requests, blockTokens int) *Trace {
	const (
		seed  = 28
		most  = 5 // whole blocks of a prompt
		tick  = 3000
		short = 63 // tokens that are not enough to publish what stands before them
	)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // equal traces are wanted
	t := &Trace{BlockTokens: blockTokens}
	next := int64(1) // 0 is the block that all begin with
	fresh := func(n int) (blocks []int64) {
		for range n {
			blocks = append(blocks, next)
			next++
		}
		return blocks
	}
	var open [][]int64 // whole blocks of each conversation's last prompt
	for i := range requests {
		var whole []int64
		rest := min(blockTokens, 64+random.IntN(max(1, blockTokens-64)))
		at := random.IntN(len(open) + 2)
		switch {
		case at >= len(open): // a conversation begins
			whole = append([]int64{0}, fresh(random.IntN(3))...)
			open = append(open, whole)
		case random.IntN(6) == 0:
			whole, rest = open[at], 1+random.IntN(short)
		default:
			whole = append(open[at][:len(open[at]):len(open[at])], fresh(1+random.IntN(2))...)
			open[at] = whole
			if len(whole) >= most {
				open = append(open[:at], open[at+1:]...)
			}
		}
		t.Requests = append(t.Requests, Request{
			TimeMS: int64(i) * tick, Input: len(whole)*blockTokens + rest, Output: 4 + random.IntN(9),
			Blocks: append(whole[:len(whole):len(whole)], fresh(1)...),
		})
	}
	return t
}
