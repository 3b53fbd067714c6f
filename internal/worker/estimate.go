package worker

import (
	"sync"
	"time"
)

// estimates are what loading and computing are expected to take on this machine:
// moving averages of what they took, per page and per token.
type estimates struct {
	mu struct {
		sync.Mutex
		load, compute, save rate
		refused             int // loads in a row that were not worth it
	}
}

// retryAfter is how many loads in a row are refused before one is tried all the
// same: what made the last one slow may have passed.
const retryAfter = 16

// A rate is a moving average of time per unit; a zero rate has seen nothing.
type rate struct {
	perUnit time.Duration
	seen    bool
}

// weight of a new observation.
const weight = 0.25

func (r *rate) observe(took time.Duration, units int) {
	if units <= 0 {
		return
	}
	per := took / time.Duration(units)
	if !r.seen {
		r.perUnit, r.seen = per, true
		return
	}
	r.perUnit += time.Duration(weight * float64(per-r.perUnit))
}

// minObserved is the least number of computed tokens from which a speed is
// learnt: shorter prompts have other costs.
const minObserved = 128

func (e *estimates) loaded(took time.Duration, pages int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.load.observe(took, pages)
}

// cut notes a load that was cut short before one of its first pages had come, which
// come at the same time: each takes at least its part.
func (e *estimates) cut(took time.Duration, pages int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if least := took / time.Duration(max(1, pages)); least > e.mu.load.perUnit {
		e.mu.load = rate{perUnit: least, seen: true}
	}
}

func (e *estimates) computed(took time.Duration, tokens int) {
	if tokens < minObserved {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.compute.observe(took, tokens)
}

// worth reports whether loading pages is expected to take less time than
// computing their tokens beyond those that a slot has already. What has never
// been observed is worth a try.
func (e *estimates) worth(pages, tokensSaved int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if tokensSaved <= 0 {
		return false
	}
	if !e.mu.load.seen || !e.mu.compute.seen {
		return true
	}
	if e.mu.load.perUnit*time.Duration(pages) >= e.mu.compute.perUnit*time.Duration(tokensSaved) && e.mu.refused < retryAfter {
		e.mu.refused++
		return false
	}
	if e.mu.refused == retryAfter {
		e.mu.load.seen = false // what is observed next counts alone
	}
	e.mu.refused = 0
	return true
}

// saving is how much longer computing tokens is expected to take than loading their
// pages; 0 when it is not known, and at least 1 ns.
func (e *estimates) saving(tokens, pages int) time.Duration {
	load, compute := e.rates()
	if compute == 0 {
		return 0
	}
	return max(1, compute*time.Duration(tokens)-load*time.Duration(pages))
}

// token returns what computing a token is expected to take; 0 when nothing has been
// observed.
func (e *estimates) token() time.Duration {
	_, compute := e.rates()
	return compute
}

// rates returns the present estimates: of a page's load and a token's
// computation; zero where nothing has been observed.
func (e *estimates) rates() (load, compute time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.load.perUnit, e.mu.compute.perUnit
}
