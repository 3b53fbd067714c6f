package transfer

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testContext is done a while before the test binary gives up.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A peer is an owner that misbehaves: it runs a script on each connection. It
// is for faults only; what a good owner does is tested with a real one.
type peer struct {
	listener net.Listener
	conns    sync.WaitGroup
	mu       struct {
		sync.Mutex
		accepted int
	}
}

// A script is what a peer does with its nth connection, counted from 0. The
// connection is closed when it returns.
type script func(n int, c *net.TCPConn)

func newPeer(t *testing.T, run script) *peer {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{listener: l}
	p.conns.Add(1)
	go func() {
		defer p.conns.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := p.count()
			p.conns.Add(1)
			go func() {
				defer p.conns.Done()
				defer func() { _ = c.Close() }()
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				run(n, c.(*net.TCPConn))
			}()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		p.conns.Wait()
	})
	return p
}

func (p *peer) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.accepted++
	return p.mu.accepted - 1
}

func (p *peer) accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.accepted
}

func (p *peer) target(version int) Target {
	return Target{
		Addr:    p.listener.Addr().String(),
		Version: version,
		Buffers: []Range{{Addr: testBase, Length: 1 << 30}},
	}
}

const testBase = 0x7f0000000000

// request reads a header and returns its operation and size.
func request(c net.Conn) (op byte, size int) {
	var h [headerBytes]byte
	if _, err := io.ReadFull(c, h[:]); err != nil {
		return 0, -1
	}
	return h[16], int(binary.LittleEndian.Uint64(h[:])) //nolint:gosec // sizes of this test
}

func status(code uint32) []byte {
	return binary.LittleEndian.AppendUint64(nil, statusMagic<<32|uint64(code))
}

// untilClosed waits for the other side to close.
func untilClosed(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// serve answers read requests of version 2 with bytes of one value.
func serve(c net.Conn, value byte) {
	for {
		_, size := request(c)
		if size < 0 {
			return
		}
		answer := make([]byte, statusBytes+size)
		copy(answer, status(statusOK))
		for i := range size {
			answer[statusBytes+i] = value
		}
		if _, err := c.Write(answer); err != nil {
			return
		}
	}
}

// targets is a Resolver with an answer per call, the last one for all later
// calls.
type targets struct {
	mu    sync.Mutex
	list  []Target
	calls int
}

func (r *targets) Resolve(context.Context, string) (Target, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.list[min(r.calls, len(r.list)-1)]
	r.calls++
	return t, nil
}

func newTestPool(t *testing.T, o Options, list ...Target) *Pool {
	t.Helper()
	p := NewPool(&targets{list: list}, o)
	t.Cleanup(p.Close)
	return p
}
