package inflight

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCloseEndsCallsAndWaits(t *testing.T) {
	c := New()
	ctx, end, err := c.Begin(t.Context())
	if err != nil || Err(ctx) != nil {
		t.Fatalf("a call at an open store: %v, %v", err, Err(ctx))
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close()
	}()
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("Close did not end the call")
	}
	if err := Err(ctx); !errors.Is(err, store.ErrClosed) {
		t.Errorf("the call ends with %v", err)
	}
	select {
	case <-closed:
		t.Error("Close did not wait")
	case <-time.After(20 * time.Millisecond):
	}
	end()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("Close did not return")
	}
	if _, _, err := c.Begin(t.Context()); !errors.Is(err, store.ErrClosed) || !c.Closed() {
		t.Errorf("a call after Close: %v", err)
	}
	c.Close()
}

func TestErrIsTheCallersOwn(t *testing.T) {
	c := New()
	defer c.Close()
	parent, cancel := context.WithCancelCause(t.Context())
	ctx, end, err := c.Begin(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	cancel(errors.New("some cause"))
	<-ctx.Done()
	if err := Err(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ends with %v", err)
	}
}
