package rpc

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// A server that says nothing until the caller has gone is left for another
// connection, unless that was short, or another call waits on this one.
func TestASilentConnectionIsLeft(t *testing.T) {
	c := dial(t, listen(t, silent), Options{Timeout: time.Minute})
	call := func(patience time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if _, err := c.Call(ctx, function, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	for _, step := range []struct {
		patience time.Duration
		dials    uint64 // with this call
	}{{silence / 10, 1}, {silence + silence/10, 1}, {silence / 10, 2}} {
		call(step.patience)
		if n := c.Dials(); n != step.dials {
			t.Errorf("%d connections, want %d", n, step.dials)
		}
	}
	waits, cancel := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() {
		if _, err := c.Call(waits, function, nil); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	call(silence + silence/10)
	call(silence / 10)
	if n := c.Dials(); n != 2 {
		t.Errorf("%d connections, although a call waits on the second", n)
	}
	cancel()
	other.Wait()
}
