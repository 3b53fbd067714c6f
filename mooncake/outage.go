package mooncake

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ollamoon/mooncake/transfer"
)

// An outage remembers which owners were found unreachable during a call, so that
// each costs its timeout once.
type outage struct {
	mu struct {
		sync.Mutex
		errs map[string]error
	}
}

// of returns why an owner is not worth asking, or nil.
func (o *outage) of(endpoint string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.errs[endpoint]
}

// any returns why some owner is not worth asking, or nil.
func (o *outage) any() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, err := range o.mu.errs {
		return err
	}
	return nil
}

// note takes an error of the data plane and returns it with the sentinel that it
// means to the caller.
func (o *outage) note(ctx context.Context, endpoint string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx, err)
	case errors.Is(err, transfer.ErrUnreachable), errors.Is(err, transfer.ErrResolve):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.mu.errs == nil {
			o.mu.errs = map[string]error{}
		}
		o.mu.errs[endpoint] = err
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
