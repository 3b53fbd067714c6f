package worker

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// DefaultSaving is the part of a prompt's computation that saving it may cost
// before the answer begins. Where it costs more, as with an engine that is much
// quicker than its slot files, the pages are saved once, when the answer has ended.
const DefaultSaving = 0.03

// early reports whether a prompt's pages are to be published in steps before its
// answer begins: all saves together copy about twice its final size. What has
// never been observed is tried.
func (s *sharer) early() bool {
	most := cmp.Or(s.MaxSaving, DefaultSaving)
	save, compute := s.estimates.saves()
	return s.Window > 0 || save == 0 || compute == 0 || 2*float64(save) <= most*float64(compute)
}

// publishLater publishes a slot's sound pages after an answer and gives the slot
// back when it is saved. The client does not wait for it; who asks for the same
// prompt meanwhile computes it too.
func (w *Worker) publishLater(ctx context.Context, s *sharer, held *slot) {
	give := func() { w.queue.give([]*slot{held}) }
	if !w.publishing() {
		give()
		return
	}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer w.publishes.Done()
		at := &progress{}
		err := w.publish(ctx, s, held, savedMore, at)
		give()
		at.Wait()
		if err != nil {
			w.failed(ctx, "pages were not published", fmt.Errorf("after an answer: %w", err))
		}
	}()
}

// saves returns what saving a token and computing it is expected to take; zero
// where nothing has been observed.
func (e *estimates) saves() (save, compute time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.save.perUnit, e.mu.compute.perUnit
}

// saved notes what saving so many tokens took.
func (e *estimates) saved(took time.Duration, tokens int) {
	if tokens < minObserved {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.save.observe(took, tokens)
}
