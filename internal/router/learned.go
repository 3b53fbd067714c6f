package router

import (
	"sync"
	"time"

	"ollamoon/internal/router/policy"
)

// learned are the costs that the policy counts with, as moving averages of what
// has been seen: what workers say of themselves, and how their answers came.
type learned struct {
	mu     sync.Mutex
	costs  policy.Costs
	tokens float64 // of an answer
}

const (
	learnWeight = 0.1
	// firstTokens are expected of an answer when none has been seen.
	firstTokens = 128
	// Shorter prompts and answers have other costs.
	leastPrompt, leastAnswer = 512, 8
)

func (l *learned) now() policy.Costs {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.withDefaults()
}

func (l *learned) withDefaults() policy.Costs {
	c := l.costs
	if c.Prefill == 0 {
		c.Prefill = policy.DefaultCosts.Prefill
	}
	if c.Load == 0 {
		c.Load = c.Prefill / 20
	}
	if c.Decode == 0 {
		c.Decode = 20 * c.Prefill
	}
	c.Beside = c.Decode / 4
	return c
}

// output is how many tokens an answer is expected to have, of at most limit; 0 is
// no limit.
func (l *learned) output(limit int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := firstTokens
	if l.tokens > 0 {
		n = int(l.tokens + 1)
	}
	if limit > 0 {
		n = min(n, limit)
	}
	return n
}

// said learns from what a worker says of itself.
func (l *learned) said(s *workerStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	average(&l.costs.Prefill, time.Duration(s.Estimates.TokenComputeMS*float64(time.Millisecond)))
	if s.PageTokens > 0 {
		average(&l.costs.Load, time.Duration(s.Estimates.PageLoadMS*float64(time.Millisecond))/time.Duration(s.PageTokens))
	}
}

// prompt learns from a prompt's time to the first token.
func (l *learned) prompt(tokens int, took time.Duration) {
	if tokens < leastPrompt {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	average(&l.costs.Prefill, took/time.Duration(tokens))
}

// answer learns from a stream, of which a part comes with each token.
func (l *learned) answer(parts int, took time.Duration) {
	if parts < leastAnswer {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	average(&l.costs.Decode, took/time.Duration(parts))
	if l.tokens == 0 {
		l.tokens = float64(parts)
	}
	l.tokens += learnWeight * (float64(parts) - l.tokens)
}

// average moves an average towards what has been seen; 0 is nothing.
func average(a *time.Duration, seen time.Duration) {
	switch {
	case seen <= 0:
	case *a == 0:
		*a = seen
	default:
		*a += time.Duration(learnWeight * float64(seen-*a))
	}
}
