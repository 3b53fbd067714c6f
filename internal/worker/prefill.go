package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ollamoon/connector"
)

// ErrNotShared is wrapped when a prompt is to be computed for others by a worker
// that shares nothing, or cannot share that prompt.
var ErrNotShared = errors.New("worker: nothing is shared")

// A Prefiller has prompts computed elsewhere.
type Prefiller interface {
	// Prefill has the pages of a tenant's prompt published up to a token, of which so many
	// are there, unless that is expected to cost more time than computing them here;
	// local is that, or 0 when it is not known. It returns for how many tokens
	// they are there now, and why that is not all.
	Prefill(ctx context.Context, tenant string, tokens []int32, have, end int, local time.Duration) (published int, err error)
}

// leastElsewhere is how many tokens are worth asking someone else, whatever the
// size of their pages.
const leastElsewhere = 512

// elsewhere has the rest of a prompt computed by someone else, if there is anyone
// and that pays, and reports whether pages have come of it.
func (w *Worker) elsewhere(ctx context.Context, s *sharer, tokens []int32, have int) bool {
	end := s.publishable(len(tokens))
	if w.config.Prefiller == nil || end-have < leastElsewhere {
		return false
	}
	published, err := w.config.Prefiller.Prefill(ctx, s.tenant, tokens, have, end, w.here(s, have, end))
	if err != nil && ctx.Err() == nil {
		w.config.Logger.Info("a prompt is computed here", "tokens", len(tokens), "reason", err)
	}
	return published > have
}

// here is what computing tokens of a prompt costs beyond loading them: its time,
// for this request and for each one that runs beside it and stands still
// meanwhile. A decode worker, which is there to answer, counts twice. It is 0 when
// nothing has been observed.
func (w *Worker) here(s *sharer, from, to int) time.Duration {
	waiting := max(1, w.config.Slots-w.queue.idle())
	if s.Role == connector.Decode {
		waiting *= 2
	}
	return s.estimates.saving(to-from, (to-from)/s.pageTokens) * time.Duration(waiting)
}

// A progress is what becomes of a prompt's pages while they are published.
type progress struct {
	sync.WaitGroup
	publishing sync.Mutex // of one step at a time: each looks for what those before have left out
	// told, if not nil, is called with how many tokens' pages are in the store.
	told  func(tokens int)
	begun bool // something is published
	mu    struct {
		sync.Mutex
		err error // the first
	}
}

// ended notes how the publishing of pages up to a token ended.
func (p *progress) ended(tokens int, err error) {
	if err == nil && p.told != nil {
		p.told(tokens)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err == nil {
		p.mu.err = err
	}
}

func (p *progress) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err
}

// Compute has the missing pages of a tenant's prompt computed and published, for others to
// load, and calls published after each step with how many tokens' pages are
// there. The error wraps ErrNotShared when they cannot be.
func (w *Worker) Compute(ctx context.Context, tenant string, tokens []int32, published func(tokens int)) error {
	s := w.sharer(tenant)
	switch {
	case s == nil, !s.Role.Publishes():
		return ErrNotShared
	case tenant != "" && w.config.Tenant == nil:
		return fmt.Errorf("%w: this worker keeps no tenants apart; start it with --ollamoon-tenants router, as the one who asks", ErrNotShared)
	case len(tokens) > w.config.Context:
		return fmt.Errorf("%w: %d tokens in a context of %d", ErrNotShared, len(tokens), w.config.Context)
	case s.publishable(len(tokens)) == 0:
		return nil
	}
	slots, err := w.queue.takeFor(ctx, &wait{tenant: tenant, tokens: tokens, want: anySlot})
	if err != nil {
		return err
	}
	defer w.queue.give(slots)
	if err := w.own(ctx, slots, tenant); err != nil {
		return err
	}
	at := &progress{told: published}
	var took breakdown
	held := slots[0]
	if held.returning = false; w.config.Remembered > 0 {
		w.replaced.put(held.text, nil)
	}
	_, err = w.fill(ctx, s, held, tokens, &took, at)
	if err == nil && took.store == 0 && !at.begun {
		held.stored = 0 // the slot has it, and the store, which is asked for it, has not
		err = w.publish(ctx, s, held, savedMore, at)
	}
	at.Wait()
	if err != nil {
		return err
	}
	if took.store > 0 && published != nil {
		published(took.store)
	}
	return at.err()
}

// Outstanding is how many tokens of a prompt Compute computes at most.
func (w *Worker) Outstanding(tokens int) int {
	if s := w.share.Load(); s != nil {
		return s.publishable(tokens)
	}
	return 0
}

// TokenTime is what computing a token is expected to take; 0 is not known yet.
func (w *Worker) TokenTime() time.Duration {
	if s := w.share.Load(); s != nil {
		_, compute := s.estimates.rates()
		return compute
	}
	return 0
}
