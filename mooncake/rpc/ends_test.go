package rpc

import (
	"context"
	"errors"
	"net"
	"testing"
)

func TestNobodyListens(t *testing.T) {
	p := listen(t, echo)
	_ = p.Close()
	c := dial(t, p, Options{})
	if _, err := c.Call(t.Context(), function, nil); !errors.Is(err, ErrConnect) {
		t.Error(err)
	}
}

func TestArgumentsBeyondMaxFrameAreNotSent(t *testing.T) {
	c := dial(t, listen(t, echo), Options{MaxFrame: 10})
	if _, err := c.Call(t.Context(), function, make([]byte, 11)); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
	if n := c.Dials(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

func TestCloseEndsCalls(t *testing.T) {
	received := make(chan struct{})
	c := dial(t, listen(t, func(conn net.Conn) {
		if _, _, err := readRequest(conn); err != nil {
			t.Error(err)
		}
		close(received)
		silent(conn)
	}), Options{})
	result := make(chan error, 1)
	go func() {
		_, err := c.Call(context.WithoutCancel(t.Context()), function, nil)
		result <- err
	}()
	<-received
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := c.Call(t.Context(), function, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
