package transfer

import (
	"context"
	"errors"
	"time"
)

// The outcomes that a caller treats differently. Errors of this package wrap
// one of them, or the context's error when the context ended the call.
var (
	// ErrUnreachable: the owner of the endpoint cannot be reached, closed the
	// connection, or moved no byte for Options.StallTimeout.
	ErrUnreachable = errors.New("transfer: owner unreachable")
	// ErrRejected: the owner has no memory for exchange at that address and of
	// that size. Nothing was read or written.
	ErrRejected = errors.New("transfer: address rejected")
	// ErrResolve: where the endpoint's data port is cannot be found out.
	ErrResolve = errors.New("transfer: endpoint not resolved")
	// ErrProtocol: the peer answered with bytes that are not the protocol's.
	ErrProtocol = errors.New("transfer: not the protocol")
	// ErrClosed: the Pool has been closed.
	ErrClosed = errors.New("transfer: closed")
)

// ended returns why a context is done, or nil. A dialer gives up at its context's
// deadline by itself, which can be a moment before the context says so.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}
