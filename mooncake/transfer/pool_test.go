package transfer

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

func TestCancelEndsARequest(t *testing.T) {
	arrived := make(chan struct{}, 1)
	p := newPeer(t, func(n int, c *net.TCPConn) {
		if n > 0 {
			serve(c, 7)
			return
		}
		request(c)
		_, _ = c.Write(status(statusOK))
		_, _ = c.Write(make([]byte, 1000))
		arrived <- struct{}{}
		untilClosed(c)
	})
	pool := newTestPool(t, Options{}, p.target(2))
	ctx, cancel := context.WithCancelCause(testContext(t))
	why := errors.New("enough")
	go func() {
		<-arrived
		cancel(why)
	}()
	if err := pool.Read(ctx, "owner", testBase, make([]byte, 2000)); !errors.Is(err, why) {
		t.Errorf("a cancelled read returned %v", err)
	}
	// The connection is in the middle of an answer: the next read has another.
	dst := make([]byte, 2000)
	if err := pool.Read(testContext(t), "owner", testBase, dst); err != nil || dst[1999] != 7 {
		t.Errorf("the next read: %v, last byte %d", err, dst[1999])
	}
	if s := pool.Stats(); s.Opened != 2 || s.Reused != 0 || s.Idle != 1 {
		t.Errorf("%+v", s)
	}
}

func TestDeadlineEndsAWrite(t *testing.T) {
	p := newPeer(t, func(_ int, c *net.TCPConn) {
		request(c)
		time.Sleep(time.Second) // the body fills the sockets' buffers
	})
	pool := newTestPool(t, Options{}, p.target(2))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := pool.Write(ctx, "owner", testBase, make([]byte, 64<<20))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) {
		t.Errorf("a write past its deadline returned %v", err)
	}
}

func TestContextDoneBefore(t *testing.T) {
	p := newPeer(t, func(_ int, c *net.TCPConn) { serve(c, 1) })
	pool := newTestPool(t, Options{}, p.target(2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pool.Read(ctx, "owner", testBase, make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// deadAddr is an address at which nothing listens.
func deadAddr(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestOwnerThatMovedIsFound(t *testing.T) {
	p := newPeer(t, func(_ int, c *net.TCPConn) { serve(c, 3) })
	pool := newTestPool(t, Options{}, Target{Addr: deadAddr(t), Version: 2}, p.target(2))
	dst := make([]byte, 10)
	if err := pool.Read(testContext(t), "owner", testBase, dst); err != nil || dst[9] != 3 {
		t.Fatalf("%v, last byte %d", err, dst[9])
	}
	if s := pool.Stats(); s.Resolves != 2 || s.Opened != 1 || s.BytesRead != 10 {
		t.Errorf("%+v", s)
	}
}

func TestOwnerThatIsGone(t *testing.T) {
	for _, list := range [][]Target{
		{{Addr: deadAddr(t), Version: 2}},
		{{Addr: deadAddr(t), Version: 2}, {Addr: deadAddr(t), Version: 2}},
	} {
		pool := newTestPool(t, Options{}, list...)
		if err := pool.Read(testContext(t), "owner", testBase, make([]byte, 1)); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%v", err)
		}
		if s := pool.Stats(); s.Resolves != 2 || s.Opened != 0 {
			t.Errorf("%+v", s)
		}
		if n := len(pool.mu.owners); n != 0 {
			t.Errorf("%d owners are remembered", n)
		}
	}
}

// An owner that restarted closed the connections to it while they were idle,
// and listens elsewhere.
func TestOwnerThatRestarted(t *testing.T) {
	closed := make(chan struct{})
	before := newPeer(t, func(_ int, c *net.TCPConn) {
		_, size := request(c)
		_, _ = c.Write(append(status(statusOK), make([]byte, size)...))
		_ = c.Close()
		close(closed)
	})
	after := newPeer(t, func(_ int, c *net.TCPConn) { serve(c, 9) })
	pool := newTestPool(t, Options{}, before.target(2), after.target(2))
	dst := make([]byte, 10)
	if err := pool.Read(testContext(t), "owner", testBase, dst); err != nil {
		t.Fatal(err)
	}
	<-closed
	if err := pool.Read(testContext(t), "owner", testBase, dst); err != nil || dst[0] != 9 {
		t.Fatalf("%v, first byte %d", err, dst[0])
	}
	if s := pool.Stats(); s.Retried != 1 || s.Reused != 1 || s.Opened != 2 || s.Resolves != 2 || s.Idle != 1 {
		t.Errorf("%+v", s)
	}
}

// A reader is told what has come, and when it comes anew.
func TestReadNoting(t *testing.T) {
	before := newPeer(t, func(n int, c *net.TCPConn) {
		_, size := request(c)
		_, _ = c.Write(append(status(statusOK), make([]byte, size)...))
		_, size = request(c)
		_, _ = c.Write(append(status(statusOK), make([]byte, size/2)...)) // and breaks off
		_ = c.Close()
	})
	after := newPeer(t, func(_ int, c *net.TCPConn) { serve(c, 9) })
	pool := newTestPool(t, Options{}, before.target(2), after.target(2))
	dst := make([]byte, 3*lowWater)
	seen := make([]byte, 0, len(dst))
	begun := 0
	note := func(n int) {
		if n == 0 {
			seen = seen[:0]
			begun++
		}
		seen = append(seen, dst[len(seen):n]...)
	}
	for i := range 2 {
		if err := pool.ReadNoting(testContext(t), "owner", testBase, dst, note); err != nil {
			t.Fatal(err)
		}
		if begun != i+1+i || !bytes.Equal(append(seen, dst[len(seen):]...), dst) {
			t.Errorf("read %d: begun %d times, %d bytes told of", i, begun, len(seen))
		}
	}
	if dst[0] != 9 || len(seen) == 0 {
		t.Errorf("first byte %d, %d bytes told of", dst[0], len(seen))
	}
}

func TestConnectionsAreReusedAndBounded(t *testing.T) {
	p := newPeer(t, func(_ int, c *net.TCPConn) { serve(c, 5) })
	pool := newTestPool(t, Options{Connections: 3}, p.target(2))
	if err := pool.Warm(testContext(t), "owner"); err != nil {
		t.Fatal(err)
	}
	if err := pool.Warm(testContext(t), "owner"); err != nil {
		t.Fatal(err)
	}
	if s := pool.Stats(); s.Opened != 1 || s.Idle != 1 {
		t.Errorf("after warming: %+v", s)
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := pool.Read(testContext(t), "owner", testBase, make([]byte, 4096)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := pool.Stats()
	if s.Opened > 3 || s.Opened+s.Reused != 51 || s.BytesRead != 50*4096 || p.accepted() != int(s.Opened) {
		t.Errorf("%+v, the peer accepted %d", s, p.accepted())
	}
}

func TestWaitingForAConnectionObeysTheContext(t *testing.T) {
	p := newPeer(t, func(_ int, c *net.TCPConn) { untilClosed(c) })
	pool := newTestPool(t, Options{Connections: 1}, p.target(2))
	busy, cancelBusy := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() { done <- pool.Read(busy, "owner", testBase, make([]byte, 1)) }()
	for p.accepted() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := pool.Read(ctx, "owner", testBase, make([]byte, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting: %v", err)
	}
	cancelBusy()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the busy one: %v", err)
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	gone := make(chan struct{})
	p := newPeer(t, func(_ int, c *net.TCPConn) {
		untilClosed(c)
		close(gone)
	})
	pool := newTestPool(t, Options{IdleTimeout: 20 * time.Millisecond}, p.target(2))
	if err := pool.Warm(testContext(t), "owner"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-testContext(t).Done():
		t.Fatal("the connection stays open")
	}
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if len(pool.mu.owners) != 0 {
		t.Errorf("%d owners are remembered", len(pool.mu.owners))
	}
}

func TestCloseEndsCalls(t *testing.T) {
	p := newPeer(t, func(_ int, c *net.TCPConn) { untilClosed(c) })
	pool := NewPool(&targets{list: []Target{p.target(2)}}, Options{})
	done := make(chan error, 1)
	go func() { done <- pool.Read(testContext(t), "owner", testBase, make([]byte, 1)) }()
	for p.accepted() == 0 {
		time.Sleep(time.Millisecond)
	}
	pool.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("the call in progress: %v", err)
	}
	if err := pool.Read(testContext(t), "owner", testBase, make([]byte, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("a later call: %v", err)
	}
	if err := pool.Warm(testContext(t), "owner"); !errors.Is(err, ErrClosed) {
		t.Errorf("a later Warm: %v", err)
	}
	pool.Close()
}

// An owner that speaks version 1 does not check addresses: what its metadata
// does not list must not be sent to it.
func TestVersion1AddressesAreChecked(t *testing.T) {
	asked := make(chan struct{}, 10)
	p := newPeer(t, func(_ int, c *net.TCPConn) {
		for {
			if _, size := request(c); size < 0 {
				return
			}
			asked <- struct{}{}
		}
	})
	target := p.target(1)
	target.Buffers = []Range{{Addr: testBase, Length: 100}}
	pool := newTestPool(t, Options{}, target)
	for _, c := range []struct {
		addr uint64
		size int
	}{{testBase - 1, 1}, {testBase + 100, 1}, {testBase + 99, 2}, {testBase, 101}, {^uint64(0), 1}, {0, 1}} {
		if err := pool.Write(testContext(t), "owner", c.addr, make([]byte, c.size)); !errors.Is(err, ErrRejected) {
			t.Errorf("%d bytes at %#x: %v", c.size, c.addr, err)
		}
		if err := pool.Read(testContext(t), "owner", c.addr, make([]byte, c.size)); !errors.Is(err, ErrRejected) {
			t.Errorf("%d bytes at %#x: %v", c.size, c.addr, err)
		}
	}
	if len(asked) != 0 {
		t.Errorf("%d requests were sent", len(asked))
	}
	if s := pool.Stats(); s.Idle != 1 || s.Opened != 1 {
		t.Errorf("%+v", s)
	}
}

func TestEmptyRequestsAreNotSent(t *testing.T) {
	pool := newTestPool(t, Options{}, Target{Addr: deadAddr(t), Version: 2})
	if err := errors.Join(pool.Read(t.Context(), "owner", 0, nil), pool.Write(t.Context(), "owner", 0, nil)); err != nil {
		t.Error(err)
	}
	if s := pool.Stats(); s.Resolves != 0 {
		t.Errorf("%+v", s)
	}
}
