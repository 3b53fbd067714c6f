package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Options of a Conn; the zero value is usable.
type Options struct {
	// ConnectTimeout bounds making a connection. 0 is 3 s.
	ConnectTimeout time.Duration
	// Timeout bounds each call's wait for its answer. 0 is 10 s.
	Timeout time.Duration
	// MaxFrame bounds the bytes of a request or an answer. 0 is 64 MiB.
	MaxFrame int
}

func (o Options) withDefaults() Options {
	if o.ConnectTimeout <= 0 {
		o.ConnectTimeout = 3 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.MaxFrame <= 0 {
		o.MaxFrame = 64 << 20
	}
	return o
}

// A Conn is a connection to one server that is made, and made again, as calls
// need it. Its methods are safe for concurrent use.
type Conn struct {
	addr string
	opts Options
	turn chan struct{} // held by the call that connects

	// life ends with Close, and with it a connection in the making.
	life context.Context
	end  context.CancelFunc

	mu struct {
		sync.Mutex
		stream *stream // nil before the first call
		dials  uint64
		closed bool
	}
}

// New returns a Conn to the server at addr, host:port. It does not connect.
func New(addr string, opts Options) *Conn {
	c := &Conn{addr: addr, opts: opts.withDefaults(), turn: make(chan struct{}, 1)}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Addr returns the server's address.
func (c *Conn) Addr() string { return c.addr }

// Dials returns how many connections have been made.
func (c *Conn) Dials() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.dials
}

// Call runs a function of the server, named in full
// ("mooncake::RealClient::ping"), and returns its result's message. body is the
// message of its arguments, or empty.
func (c *Conn) Call(ctx context.Context, function string, body []byte) ([]byte, error) {
	if len(body) > c.opts.MaxFrame {
		return nil, fmt.Errorf("%w: %s: arguments of %d bytes, at most %d are sent", ErrProtocol, function, len(body), c.opts.MaxFrame)
	}
	s, err := c.connected(ctx)
	if err != nil {
		return nil, fmt.Errorf("calling %s at %s: %w", function, c.addr, err)
	}
	answer, err := s.call(ctx, function, body, c.opts.Timeout)
	if err != nil {
		return nil, fmt.Errorf("calling %s at %s: %w", function, c.addr, err)
	}
	if answer.code != 0 {
		return nil, serverError(function, answer.code, answer.body)
	}
	return answer.body, nil
}

// Close ends calls in progress with ErrClosed, and returns when the connection's
// goroutines have ended.
func (c *Conn) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	s := c.mu.stream
	c.mu.Unlock()
	c.end()
	if s != nil {
		s.fail(ErrClosed)
		s.wait()
	}
	return nil
}

// live returns the working stream, or nil when there is none.
func (c *Conn) live() (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, ErrClosed
	}
	if c.mu.stream != nil && c.mu.stream.ended() {
		return nil, nil
	}
	return c.mu.stream, nil
}

// connected returns a working stream. One call connects while the others wait
// for it; when it fails, each of them tries for itself, in turn.
func (c *Conn) connected(ctx context.Context) (*stream, error) {
	if s, err := c.live(); s != nil || err != nil {
		return s, err
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-c.life.Done():
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s, err := c.live(); s != nil || err != nil {
		return s, err
	}
	return c.connect(ctx)
}

// connect replaces a stream that has ended, or none. The caller holds turn.
func (c *Conn) connect(ctx context.Context) (*stream, error) {
	c.mu.Lock()
	ended := c.mu.stream
	c.mu.Unlock()
	if ended != nil {
		ended.wait()
	}
	dialCtx, cancel := context.WithTimeout(ctx, c.opts.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)() //nolint:contextcheck // a second reason to give up
	conn, err := (&net.Dialer{}).DialContext(dialCtx, "tcp", c.addr)
	if err != nil {
		if c.life.Err() != nil {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", ErrConnect, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, errors.Join(ErrClosed, conn.Close())
	}
	c.mu.dials++
	c.mu.stream = newStream(conn, c.opts.MaxFrame)
	return c.mu.stream, nil
}
