package transfer

import (
	"context"
	"fmt"
	"net"
	"time"
)

// enter begins a call: the context it returns is also done, with ErrClosed as
// its cause, when the Pool closes. Who entered must leave.
func (p *Pool) enter(ctx context.Context) (context.Context, func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.closed {
		return nil, nil, ErrClosed
	}
	p.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p.closing, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		p.calls.Done()
	}, nil
}

// take waits for a slot of the endpoint's owner.
func (p *Pool) take(ctx context.Context, endpoint string) (*owner, error) {
	p.mu.Lock()
	o := p.mu.owners[endpoint]
	if o == nil {
		o = &owner{slots: make(chan struct{}, p.options.Connections)}
		p.mu.owners[endpoint] = o
	}
	o.users++
	p.mu.Unlock()
	select {
	case o.slots <- struct{}{}:
		return o, nil
	case <-ctx.Done():
		p.leave(endpoint, o)
		return nil, fmt.Errorf("waiting for a connection to %q: %w", endpoint, context.Cause(ctx))
	}
}

// give returns a slot that take gave.
func (p *Pool) give(endpoint string, o *owner) {
	<-o.slots
	p.leave(endpoint, o)
}

// leave ends a use of the owner, and forgets it when nothing is left of it.
func (p *Pool) leave(endpoint string, o *owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o.users--
	p.release(endpoint, o)
}

func (p *Pool) release(endpoint string, o *owner) {
	if o.users == 0 && len(o.idle) == 0 && p.mu.owners[endpoint] == o {
		delete(p.mu.owners, endpoint)
	}
}

// idle takes the open connection that was used last, or returns nil.
func (p *Pool) idle(o *owner) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(o.idle) == 0 {
		return nil
	}
	c := o.idle[len(o.idle)-1]
	o.idle = o.idle[:len(o.idle)-1]
	return c
}

// keep makes a connection one of the idle ones.
func (p *Pool) keep(o *owner, c *conn) {
	c.idle = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	o.idle = append(o.idle, c)
}

// drop closes the idle connections.
func (p *Pool) drop(o *owner) {
	p.mu.Lock()
	idle := o.idle
	o.idle = nil
	p.mu.Unlock()
	closeAll(idle)
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// dial opens a connection to the endpoint's owner. Where the address that is
// remembered does not answer, it asks for the address again, once.
func (p *Pool) dial(ctx context.Context, endpoint string) (*conn, error) {
	target, err := p.targets.resolve(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	c, err := p.connect(ctx, target)
	if err == nil || ended(ctx) != nil {
		return c, err
	}
	renewed, resolveErr := p.targets.renew(ctx, endpoint)
	if resolveErr != nil {
		return nil, fmt.Errorf("%w: %w; then %w", ErrUnreachable, err, resolveErr)
	}
	if renewed.Addr == target.Addr {
		p.targets.forget(endpoint)
		return nil, err
	}
	c, err = p.connect(ctx, renewed)
	if err != nil {
		p.targets.forget(endpoint)
	}
	return c, err
}

func (p *Pool) connect(ctx context.Context, target Target) (*conn, error) {
	dialer := net.Dialer{Timeout: p.options.DialTimeout}
	c, err := dialer.DialContext(ctx, "tcp", target.Addr)
	if err != nil {
		if cause := ended(ctx); cause != nil {
			return nil, cause
		}
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	p.counters.opened.Add(1)
	return newConn(c, target, p.options.StallTimeout), nil
}

// sweep closes connections that are idle for long, until the Pool closes.
func (p *Pool) sweep() {
	defer close(p.swept)
	ticker := time.NewTicker(max(p.options.IdleTimeout/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-p.closing.Done():
			return
		case now := <-ticker.C:
			closeAll(p.expired(now.Add(-p.options.IdleTimeout)))
		}
	}
}

// expired takes out the connections that are idle since before a time.
func (p *Pool) expired(before time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var old []*conn
	for endpoint, o := range p.mu.owners {
		n := 0 // they are in the order in which they became idle
		for n < len(o.idle) && o.idle[n].idle.Before(before) {
			n++
		}
		old = append(old, o.idle[:n]...)
		o.idle = append([]*conn(nil), o.idle[n:]...)
		p.release(endpoint, o)
	}
	return old
}
