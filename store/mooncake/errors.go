package mooncake

import (
	"context"
	"errors"
	"fmt"

	"ollamoon/mooncake"
	"ollamoon/store"
)

// meanings are what the client's sentinels are to a caller of a store, the first
// that fits. What is not here is store.ErrUnavailable.
var meanings = []struct{ client, store error }{
	{mooncake.ErrClosed, store.ErrClosed},
	{mooncake.ErrNotFound, store.ErrNotFound},
	{mooncake.ErrLeaseExpired, store.ErrNotFound},
	{mooncake.ErrChecksum, store.ErrNotFound},
	{mooncake.ErrExists, store.ErrExists},
	{mooncake.ErrLength, store.ErrLength},
	{mooncake.ErrNoSpace, store.ErrFull},
	{mooncake.ErrArgument, store.ErrBadKey},
}

// translate adds to a client's error the sentinel that it means, or the error of
// the context that the client ended with.
func translate(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if done := ctx.Err(); done != nil {
		if errors.Is(err, done) {
			return err
		}
		if errors.Is(err, context.Cause(ctx)) {
			return fmt.Errorf("%w: %w", done, err)
		}
	}
	for _, m := range meanings {
		if errors.Is(err, m.client) {
			return fmt.Errorf("%w: %w", m.store, err)
		}
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}
