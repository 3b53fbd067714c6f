package netlab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A Relay passes connections on to an address, each byte so much later than it
// came: a long way, where the kernel has no netem.
type Relay struct {
	listener net.Listener
	to       string
	delay    time.Duration
	ended    context.Context
	end      context.CancelFunc
	running  sync.WaitGroup
}

// NewRelay returns a relay that listens at an address. Its owner closes it.
func NewRelay(ctx context.Context, at, to string, delay time.Duration) (*Relay, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", at)
	if err != nil {
		return nil, fmt.Errorf("netlab: starting a relay: %w", err)
	}
	r := &Relay{listener: listener, to: to, delay: delay}
	r.ended, r.end = context.WithCancel(context.WithoutCancel(ctx))
	r.running.Go(r.accept)
	return r, nil
}

// Address is where the relay listens.
func (r *Relay) Address() string { return r.listener.Addr().String() }

// Close ends the relay and its connections.
func (r *Relay) Close() {
	r.end()
	_ = r.listener.Close() // nothing is lost
	r.running.Wait()
}

func (r *Relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.join(near) })
	}
}

// join passes on what comes in both directions, until one of them ends.
func (r *Relay) join(near net.Conn) {
	far, err := new(net.Dialer).DialContext(r.ended, "tcp4", r.to)
	if err != nil {
		_ = near.Close() // as the other side would
		return
	}
	stop := context.AfterFunc(r.ended, func() { _ = errors.Join(near.Close(), far.Close()) })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { r.pass(far, near) })
	both.Go(func() { r.pass(near, far) })
	both.Wait()
}

// A parcel is bytes, and when they are due.
type parcel struct {
	bytes []byte
	due   time.Time
}

// pass passes on in one direction; then both connections are closed.
func (r *Relay) pass(to, from net.Conn) {
	underway := make(chan parcel, 1024) // on their way; more wait at the sender's
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(underway)
		for {
			buffer := make([]byte, 64<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				underway <- parcel{buffer[:n], time.Now().Add(r.delay)}
			}
			if err != nil {
				return
			}
		}
	})
	var failed error
	for p := range underway {
		if failed != nil {
			continue // until the reader has seen it
		}
		time.Sleep(time.Until(p.due))
		if _, failed = to.Write(p.bytes); failed != nil {
			_ = from.Close() // which ends the reader
		}
	}
	reading.Wait()
	_ = errors.Join(to.Close(), from.Close())
}
