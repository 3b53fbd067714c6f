package mooncake

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"ollamoon/mooncake/shm"
	"ollamoon/mooncake/structpack"
)

const (
	// sharedKeepBytes is the memory that the arena keeps when nothing is in it.
	sharedKeepBytes = 8 << 20
	// After shared memory has failed, it is tried again after retryFirst, then after
	// twice as long each time, up to retryMost, until it has lasted for as long as
	// that.
	retryFirst = time.Second
	retryMost  = time.Minute
)

// sharedMemory is the plane over memory that is shared with a mooncake_client
// process of this machine. It is in use while it has a link; without, all its
// tasks are left to TCP.
type sharedMemory struct {
	client *Client
	tries  sync.WaitGroup // opening and closing of sessions in the background

	mu struct {
		sync.Mutex
		closed bool
		link   *link // nil: not in use
		trying bool
		wait   time.Duration // before the next try
		next   time.Time     // when that is
	}
}

// A link is a session with a process that was found to serve the same store.
type link struct {
	session *shm.Session
	since   time.Time
	stage   *stage
}

// start opens a session as the Config says. It fails only when the Config names a
// process.
func (s *sharedMemory) start(ctx context.Context) error {
	mode := s.client.config.SharedMemory
	if mode == sharedMemoryOff {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, s.client.config.ConnectTimeout)
	defer cancel()
	l, err := s.open(limited)
	if err != nil && (mode != sharedMemoryAuto || ctx.Err() != nil) {
		return fmt.Errorf("sharing memory: %w", sharedError(ctx, err))
	}
	s.tried(ctx, l, err)
	return nil
}

// sharedError gives an error of a session the sentinel that it means.
func sharedError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx, err)
	case errors.Is(err, shm.ErrUnsupported):
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// use returns the link, or nil when there is none. It has a session opened in the
// background when it is time for that.
func (s *sharedMemory) use() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil
	}
	if s.mu.link != nil && s.mu.link.session.Err() != nil {
		s.drop()
	}
	if s.mu.link == nil && !s.mu.trying && s.client.config.SharedMemory != sharedMemoryOff && time.Now().After(s.mu.next) {
		s.mu.trying = true
		s.tries.Go(func() {
			l, err := s.open(s.client.closing)
			s.tried(s.client.closing, l, err)
		})
	}
	return s.mu.link
}

// drop ends the use of a link whose session has ended. The caller holds mu.
func (s *sharedMemory) drop() {
	lost := s.mu.link
	s.mu.link = nil
	if time.Since(lost.since) > retryMost {
		s.mu.wait = 0
	}
	s.delay()
	s.client.config.Logger.Warn("shared memory is lost; objects go over TCP", "error", lost.session.Err())
	s.tries.Go(lost.close)
}

// tried takes the outcome of a try.
func (s *sharedMemory) tried(ctx context.Context, l *link, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.trying = false
	if err == nil {
		s.mu.link = l
		return
	}
	s.delay()
	s.client.config.Logger.DebugContext(ctx, "no shared memory; objects go over TCP", "error", err)
}

// delay sets the time of the next try. The caller holds mu.
func (s *sharedMemory) delay() {
	s.mu.wait = min(max(2*s.mu.wait, retryFirst), retryMost)
	s.mu.next = time.Now().Add(s.mu.wait)
}

// close ends the plane. No calls are in progress.
func (s *sharedMemory) close() {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.tries.Wait()
	s.mu.Lock()
	last := s.mu.link
	s.mu.link = nil
	s.mu.Unlock()
	if last != nil {
		last.close()
	}
}

func (l *link) close() {
	l.stage.close()
	_ = l.session.Close() // nothing depends on the process any more
}

// open opens a session with a process that serves the same store. All that there
// are are tried at once, since any of them may hang.
func (s *sharedMemory) open(ctx context.Context) (*link, error) {
	v, err := s.client.master.version(ctx)
	if err != nil {
		return nil, err
	}
	addresses, err := s.addresses()
	if err != nil {
		return nil, err
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%w: none runs on this machine", shm.ErrUnavailable)
	}
	p, err := s.newProbe(ctx)
	if err != nil {
		return nil, err
	}
	defer p.remove(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	links, errs := make(chan *link, len(addresses)), make(chan error, len(addresses))
	var tries sync.WaitGroup
	for _, addr := range addresses {
		tries.Go(func() {
			if l, err := s.openAt(ctx, v, addr, p); err != nil {
				errs <- err
			} else {
				cancel()
				links <- l
			}
		})
	}
	tries.Wait()
	close(links)
	close(errs)
	first := <-links
	for other := range links {
		other.close() //nolint:contextcheck // takes its own time
	}
	if first != nil {
		return first, nil
	}
	for other := range errs {
		err = errors.Join(err, other)
	}
	return nil, err
}

// addresses are the processes to try.
func (s *sharedMemory) addresses() ([]string, error) {
	if named := s.client.config.SharedMemory; named != sharedMemoryAuto {
		return []string{named}, nil
	}
	ports, err := shm.Ports()
	addresses := make([]string, len(ports))
	for i, port := range ports {
		addresses[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	return addresses, err
}

func (s *sharedMemory) openAt(ctx context.Context, v *version, addr string, p *probe) (*link, error) {
	config := &s.client.config
	session, err := shm.Open(ctx, shm.Options{
		Addr:        addr,
		ArenaBytes:  config.ArenaBytes + stageBytes,
		KeepBytes:   sharedKeepBytes,
		ConfigType:  v.configType(),
		WriteConfig: func(w *structpack.Writer) { v.writeConfig(w, &config.Replicate) },
		OpenTimeout: config.ConnectTimeout,
		CallTimeout: config.CallTimeout + config.StallTimeout,
	})
	if err != nil {
		return nil, err
	}
	if err := p.find(ctx, session); err != nil {
		_ = session.Close() //nolint:contextcheck // takes its own time
		return nil, fmt.Errorf("the mooncake_client at %s: %w", addr, err)
	}
	return &link{session: session, since: time.Now(), stage: newStage(session)}, nil
}
