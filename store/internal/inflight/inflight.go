// Package inflight counts a store's calls in progress, so that Close can end
// them and wait for them.
package inflight

import (
	"context"
	"errors"
	"sync"

	"ollamoon/store"
)

// Calls are the calls in progress of one store.
type Calls struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
	ctx     context.Context // done when the store closes
	cancel  context.CancelCauseFunc
}

// New returns the Calls of a store that is open.
func New() *Calls {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &Calls{ctx: ctx, cancel: cancel}
}

// Begin starts a call. The context that it returns is done when the call's own
// is, or when the store closes; end has to be called when the call returns. The
// error wraps store.ErrClosed.
func (c *Calls) Begin(ctx context.Context) (inner context.Context, end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, nil, store.ErrClosed
	}
	c.running.Add(1)
	inner, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(store.ErrClosed) })
	return inner, func() {
		stop()
		cancel(nil)
		c.running.Done()
	}, nil
}

// Closed reports whether Close was called.
func (c *Calls) Closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close ends the calls in progress and waits for them.
func (c *Calls) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel(store.ErrClosed)
	c.running.Wait()
}

// Err returns nil while a context from Begin is not done, then what its call
// has to return: store.ErrClosed when the store was closed, else the context's
// Err.
func Err(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, store.ErrClosed) {
		return cause
	}
	return ctx.Err()
}
