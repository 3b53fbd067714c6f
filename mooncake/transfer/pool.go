package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Options are a Pool's limits. A zero field means its default.
type Options struct {
	// Connections is how many an owner gets at most, and so how many requests
	// it serves at a time; others wait. Default 4, as many as the Transfer Engine
	// opens: an owner serves all of them on one thread, and several keep that
	// busy while one of them waits for its peer.
	Connections int
	// DialTimeout bounds the opening of a connection. Default 5 s.
	DialTimeout time.Duration
	// StallTimeout is how long an owner may move no byte. Default 10 s.
	StallTimeout time.Duration
	// IdleTimeout is how long a connection stays open without a request.
	// Default 60 s.
	IdleTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Connections <= 0 {
		o.Connections = 4
	}
	if o.DialTimeout <= 0 {
		o.DialTimeout = 5 * time.Second
	}
	if o.StallTimeout <= 0 {
		o.StallTimeout = 10 * time.Second
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = time.Minute
	}
	return o
}

// A Pool reads and writes owners' memory over connections that it keeps. Its
// methods are safe for concurrent use.
type Pool struct {
	options  Options
	targets  cache
	counters counters

	closing context.Context // done when Close begins
	close   context.CancelCauseFunc
	swept   chan struct{} // closed when the sweeper has ended
	calls   sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
		owners map[string]*owner
	}
}

// An owner is what a Pool keeps of one endpoint: it exists while a call uses
// it or a connection to it is open.
type owner struct {
	slots chan struct{} // a call holds one while it uses a connection
	users int           // calls that hold or wait for a slot
	idle  []*conn       // the one used last at the end
}

// NewPool returns a Pool. Its owner must Close it.
func NewPool(resolver Resolver, options Options) *Pool {
	p := &Pool{
		options: options.withDefaults(),
		targets: cache{resolver: resolver},
		swept:   make(chan struct{}),
	}
	p.closing, p.close = context.WithCancelCause(context.Background())
	p.mu.owners = make(map[string]*owner)
	go p.sweep()
	return p
}

// Read fills dst from the memory of the endpoint's owner at addr. After an
// error dst's contents are undefined. An empty dst is read without asking.
func (p *Pool) Read(ctx context.Context, endpoint string, addr uint64, dst []byte) error {
	return p.ReadNoting(ctx, endpoint, addr, dst, nil)
}

// ReadNoting is Read that calls arrived, if not nil, as bytes come: the first n of
// dst are there and stay. A read that begins anew says so with 0. The end of dst
// need not be told of. The reader waits for the call.
func (p *Pool) ReadNoting(ctx context.Context, endpoint string, addr uint64, dst []byte, arrived func(n int)) error {
	err := p.request(ctx, endpoint, addr, len(dst), func(c *conn) error { return c.read(addr, dst, arrived) })
	if err != nil {
		return fmt.Errorf("reading %d bytes at %#x of %q: %w", len(dst), addr, endpoint, err)
	}
	p.counters.bytesRead.Add(int64(len(dst)))
	return nil
}

// Write copies src into the memory of the endpoint's owner at addr, and
// returns nil once it is there. After an error some of it may be. An empty src
// is written without asking.
func (p *Pool) Write(ctx context.Context, endpoint string, addr uint64, src []byte) error {
	err := p.request(ctx, endpoint, addr, len(src), func(c *conn) error { return c.write(addr, src) })
	if err != nil {
		return fmt.Errorf("writing %d bytes at %#x of %q: %w", len(src), addr, endpoint, err)
	}
	p.counters.bytesWritten.Add(int64(len(src)))
	return nil
}

// Warm opens a connection to the endpoint's owner unless one is open and idle.
func (p *Pool) Warm(ctx context.Context, endpoint string) error {
	ctx, leave, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	o, err := p.take(ctx, endpoint)
	if err != nil {
		return err
	}
	defer p.give(endpoint, o)
	c := p.idle(o)
	if c == nil {
		if c, err = p.dial(ctx, endpoint); err != nil {
			return fmt.Errorf("warming %q: %w", endpoint, err)
		}
	}
	p.keep(o, c)
	return nil
}

// request runs one request on a connection to the endpoint. When a connection
// from the pool fails, its owner may have restarted: the request is run once
// more on a new one.
func (p *Pool) request(ctx context.Context, endpoint string, addr uint64, size int, run func(*conn) error) error {
	if size == 0 {
		return nil // the protocol has no empty requests
	}
	ctx, leave, err := p.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	o, err := p.take(ctx, endpoint)
	if err != nil {
		return err
	}
	defer p.give(endpoint, o)

	if c := p.idle(o); c != nil {
		p.counters.reused.Add(1)
		err := p.serve(ctx, o, c, endpoint, addr, size, run)
		if err == nil || ended(ctx) != nil || !errors.Is(err, ErrUnreachable) || errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		p.counters.retried.Add(1)
		p.targets.forget(endpoint)
		p.drop(o)
	}
	c, err := p.dial(ctx, endpoint)
	if err != nil {
		return err
	}
	return p.serve(ctx, o, c, endpoint, addr, size, run)
}

// serve runs a request on a connection and puts that back, or closes it when
// the request failed or its context is done.
func (p *Pool) serve(ctx context.Context, o *owner, c *conn, endpoint string, addr uint64, size int, run func(*conn) error) error {
	if err := p.check(ctx, c, endpoint, addr, size); err != nil {
		p.keep(o, c)
		return err
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.reset()
		close(closed)
	})
	err := run(c)
	if !stop() {
		<-closed
		if err == nil {
			return nil
		}
		return context.Cause(ctx)
	}
	if err == nil {
		p.keep(o, c)
		return nil
	}
	c.reset()
	switch {
	case errors.Is(err, ErrRejected):
		return err
	case errors.Is(err, ErrProtocol):
		p.targets.forget(endpoint)
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, c.target.Addr, err)
}

// check refuses an address that an owner which speaks version 1 does not
// offer: that owner would not check it.
func (p *Pool) check(ctx context.Context, c *conn, endpoint string, addr uint64, size int) error {
	if c.target.Version >= 2 || c.target.holds(addr, size) {
		return nil
	}
	// The owner may have added memory since.
	target, err := p.targets.renew(ctx, endpoint)
	if err != nil {
		return err
	}
	if target.Addr == c.target.Addr {
		c.target = target
	}
	if !c.target.holds(addr, size) {
		return fmt.Errorf("%w: not in the memory that the owner's metadata lists", ErrRejected)
	}
	return nil
}

// Stats returns what the Pool has done so far.
func (p *Pool) Stats() Stats {
	s := p.counters.load()
	s.Resolves = p.targets.asked.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.mu.owners {
		s.Idle += len(o.idle)
	}
	return s
}

// Close ends the calls in progress, which then return ErrClosed, waits for
// them and closes all connections. Later calls return ErrClosed.
func (p *Pool) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.close(ErrClosed)
	p.calls.Wait()
	<-p.swept
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.mu.owners {
		closeAll(o.idle)
	}
	clear(p.mu.owners)
}
