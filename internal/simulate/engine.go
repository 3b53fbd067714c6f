package simulate

import (
	"container/heap"
	"math"
)

// An engine is one worker's llama-server on a simulated clock. It computes one
// prompt at a time, first come, first served; streams generate beside it. A batch
// has costs.Batch tokens of the prompt and one of each stream, so that a stream is
// slowed to a token a batch while a prompt is computed, and a prompt by as many
// tokens as there are streams. While a slot file is read or written nothing else
// is done. Without a prompt, each stream's token takes 1/costs.Decode and
// costs.Beside for each other stream.
type engine struct {
	costs   *Costs
	now     float64 // seconds
	jobs    []*job  // the first is at work
	streams streams
	made    float64 // tokens that every stream has generated since the start
	busy    float64 // seconds with a prompt
}

// A job is a request's prompt on its engine: legs, one after the other.
type job struct {
	request *request
	legs    []leg
}

// A leg is a part of a job that takes time.
type leg struct {
	compute bool    // otherwise a slot file is read or written
	left    float64 // tokens to compute, or else seconds
	pages   [2]int  // that can be published when it ends, from and to
}

// at returns the leg at work, if there is one.
func (e *engine) at() *leg {
	if len(e.jobs) == 0 || len(e.jobs[0].legs) == 0 {
		return nil
	}
	return &e.jobs[0].legs[0]
}

// A stream generates until the engine has made its number of tokens.
type stream struct {
	request *request
	end     float64
}

// What happens next on an engine.
type happening int

const (
	nothing happening = iota
	legEnds
	streamEnds
)

// rates returns how many tokens a second of the prompt at work are computed and of
// each stream generated.
func (e *engine) rates() (prompt, each float64) {
	beside := float64(len(e.streams))
	if at := e.at(); at != nil {
		if !at.compute {
			return 0, 0
		}
		batch := float64(e.costs.Batch)
		each = e.costs.Prefill / (batch + beside)
		return batch * each, each
	}
	return 0, 1 / (1/e.costs.Decode + max(0, beside-1)*e.costs.Beside)
}

// next returns when something happens by itself, and what.
func (e *engine) next() (float64, happening) {
	at, what := math.Inf(1), nothing
	prompt, each := e.rates()
	if l := e.at(); l != nil {
		at, what = e.now+l.left, legEnds
		if l.compute {
			at = e.now + l.left/prompt
		}
	}
	if len(e.streams) > 0 && each > 0 {
		if end := e.now + max(0, e.streams[0].end-e.made)/each; end < at {
			at, what = end, streamEnds
		}
	}
	return at, what
}

// advance lets time pass until t, before which nothing happens.
func (e *engine) advance(t float64) {
	passed := t - e.now
	e.now = t
	if passed <= 0 {
		return
	}
	prompt, each := e.rates()
	e.made += passed * each
	l := e.at()
	if l == nil {
		return
	}
	e.busy += passed
	if l.compute {
		passed *= prompt
	}
	l.left = max(0, l.left-passed)
}

// generate begins a stream that has tokens to generate.
func (e *engine) generate(r *request, tokens int) {
	heap.Push(&e.streams, stream{request: r, end: e.made + float64(tokens)})
}

// streams is a heap, the first to end on top.
type streams []stream

func (s streams) Len() int { return len(s) }

func (s streams) Less(i, j int) bool {
	if s[i].end != s[j].end {
		return s[i].end < s[j].end
	}
	return s[i].request.number < s[j].request.number
}

func (s streams) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push implements heap.Interface.
func (s *streams) Push(x any) { *s = append(*s, x.(stream)) }

// Pop implements heap.Interface.
func (s *streams) Pop() any {
	old := *s
	last := old[len(old)-1]
	*s = old[:len(old)-1]
	return last
}
