package trace

import "fmt"

// A Prompt is a request as workers see it.
type Prompt struct {
	TimeMS        int64
	Input, Output int // tokens
	// Pages are what can be shared, in order. Equal numbers are equal pages, after
	// equal pages. They count from 0 without gaps.
	Pages []int32
}

// Pages are the prompts of a trace, cut.
type Pages struct {
	Prompts []Prompt
	// Tokens is a page's length. Only in a trace's own blocks the last of a prompt may
	// be shorter.
	Tokens int
	// Rest is how many tokens of a prompt are computed behind the pages that are
	// published of it before its answer; 0 in a trace's own blocks.
	Rest     int
	Distinct int   // pages
	Total    int   // pages of all prompts
	Input    int64 // tokens of all prompts
	Output   int64
}

// Blocks returns a trace's own blocks as pages, a prompt's last with them when it
// is not full, as Mooncake counts.
func (t *Trace) Blocks() *Pages {
	p := &Pages{Tokens: t.BlockTokens}
	p.cut(t, func(q Request) int { return len(q.Blocks) }, 1)
	return p
}

// minRest is how many tokens of a prompt a worker leaves to compute behind the
// pages that it publishes: the engine's results for fewer differ in their last
// bits.
const minRest = 64

// Cut returns pages of a number of tokens, which divides that of blocks. Of a
// prompt only full pages are shared. Usable and Published say which of them.
func (t *Trace) Cut(pageTokens int) (*Pages, error) {
	if pageTokens <= 0 || t.BlockTokens%pageTokens != 0 {
		return nil, fmt.Errorf("%w: its blocks of %d tokens cannot be cut into pages of %d", ErrTrace, t.BlockTokens, pageTokens)
	}
	p := &Pages{Tokens: pageTokens, Rest: minRest}
	p.cut(t, func(q Request) int { return q.Input / pageTokens }, t.BlockTokens/pageTokens)
	return p, nil
}

// cut numbers the pages of all prompts, of which count says how many each has,
// parts to a block.
func (p *Pages) cut(t *Trace, count func(Request) int, parts int) {
	first := make(map[int64]int32) // of a block's pages
	next := int32(0)
	seen := make(map[int32]bool)
	p.Prompts = make([]Prompt, len(t.Requests))
	for i, q := range t.Requests {
		n := count(q)
		pages := make([]int32, n)
		for j := range n {
			block := q.Blocks[j/parts]
			at, known := first[block]
			if !known {
				at = next
				first[block] = at
				next += int32(parts) //nolint:gosec // a few to a block
			}
			pages[j] = at + int32(j%parts) //nolint:gosec // below parts
			seen[pages[j]] = true
		}
		p.Prompts[i] = Prompt{TimeMS: q.TimeMS, Input: q.Input, Output: q.Output, Pages: pages}
		p.Total += n
		p.Input += int64(q.Input)
		p.Output += int64(q.Output)
	}
	p.Distinct = len(seen)
}

// Usable is how many pages of a prompt can be used instead of being computed: a
// token at least is left.
func (p *Pages) Usable(q *Prompt) int {
	if p.Rest == 0 {
		return len(q.Pages)
	}
	return min(len(q.Pages), (q.Input-1)/p.Tokens)
}

// Published is how many pages of a prompt a worker publishes before its answer.
// What is saved after an answer has all of them.
func (p *Pages) Published(q *Prompt) int {
	if p.Rest == 0 {
		return len(q.Pages)
	}
	return max(0, q.Input-p.Rest) / p.Tokens
}

// Numbers is how many numbers pages have: one above the largest.
func (p *Pages) Numbers() int {
	most := int32(-1)
	for _, q := range p.Prompts {
		for _, page := range q.Pages {
			most = max(most, page)
		}
	}
	return int(most) + 1
}

// Covered is how many tokens of a prompt its first n pages cover: all but one
// at most, since the last has to be computed.
func (p *Pages) Covered(q *Prompt, n int) int { return min(n*p.Tokens, q.Input-1) }

// Ideal is how many pages a store that never forgets, and has all full pages of all
// prompts, would have had when each prompt came, the one before it being there by
// then: those of the longest run at its start.
func (p *Pages) Ideal() int {
	seen := make([]bool, p.Numbers())
	hits := 0
	for i := range p.Prompts {
		q, run := &p.Prompts[i], true
		for j, page := range q.Pages {
			run = run && j < p.Usable(q) && seen[page]
			if run {
				hits++
			}
			seen[page] = true
		}
	}
	return hits
}
