package shm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"ollamoon/mooncake/rpc"
	"ollamoon/mooncake/structpack"
)

const (
	// unmapTimeout bounds the farewell of a session.
	unmapTimeout = time.Second
	// trimAfter is how long free memory is kept.
	trimAfter = 30 * time.Second
)

// A Session shares an arena with one mooncake_client. Its methods are safe for
// concurrent use.
type Session struct {
	options Options
	id      clientID
	arena   *arena
	conn    *rpc.Conn

	// life ends, with the reason, when the session is lost or closed.
	life    context.Context //nolint:containedctx // a lifetime, not a call's context
	end     context.CancelCauseFunc
	calls   sync.WaitGroup
	watcher sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
	}
}

// Open makes an arena and registers it with the mooncake_client at options.Addr.
func Open(ctx context.Context, options Options) (*Session, error) {
	options = options.withDefaults()
	_, port, err := net.SplitHostPort(options.Addr)
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w: %w", ErrUnavailable, err)
	}
	if options.WriteConfig == nil {
		return nil, fmt.Errorf("opening a session: %w: no ReplicateConfig is given", ErrUnsupported)
	}
	a, err := newArena(options.ArenaBytes)
	if err != nil {
		return nil, fmt.Errorf("opening a session: %w: %w", ErrUnsupported, err)
	}
	s := &Session{
		options: options,
		id:      newClientID(),
		arena:   a,
		conn:    rpc.New(options.Addr, rpc.Options{ConnectTimeout: options.OpenTimeout, Timeout: options.CallTimeout}),
	}
	s.life, s.end = context.WithCancelCause(context.Background())
	opening, cancel := context.WithTimeout(ctx, options.OpenTimeout)
	defer cancel()
	if err := s.open(opening, port); err != nil {
		_ = s.Close() //nolint:contextcheck // the farewell has a time of its own
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("opening a session with the mooncake_client at %s: %w", options.Addr, err)
	}
	s.watcher.Go(s.watch)
	return s, nil
}

func newClientID() clientID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail
	return clientID{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

// open registers the arena, and finds out whether socket and RPC port are of
// the same process and whether that speaks the session's version: a put and a get
// of nothing are answered with the types of the version.
func (s *Session) open(ctx context.Context, port string) error {
	if err := register(ctx, port, s.id, s.arena, s.options.AnyUser); err != nil {
		return err
	}
	// The first ping starts the clock by which the process forgets clients that
	// have ended.
	if err := s.alive(ctx); err != nil {
		return openError(err)
	}
	for _, q := range []question{putQuestion(), getQuestion()} {
		body, err := s.conn.Call(ctx, service+q.method, s.encode(q, nil, nil))
		if err == nil {
			_, err = q.decode(body, nil)
		}
		if err != nil {
			return openError(err)
		}
	}
	return nil
}

// openError says what an error of an RPC means to who opens a session.
func openError(err error) error {
	var other *structpack.TypeError
	if errors.Is(err, rpc.ErrArguments) || errors.Is(err, rpc.ErrNoFunction) || errors.As(err, &other) {
		return fmt.Errorf("%w: another version: %w", ErrUnsupported, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// alive gives the process a sign of life and asks whether it knows the arena.
func (s *Session) alive(ctx context.Context) error {
	body, err := s.conn.Call(ctx, service+"ping", encodeID(s.id))
	if err == nil {
		err = decodePing(body)
	}
	if err != nil {
		return fmt.Errorf("pinging: %w", err)
	}
	return s.mapped(ctx)
}

var errNotMapped = errors.New("the process does not know the arena")

func (s *Session) mapped(ctx context.Context) error {
	body, err := s.conn.Call(ctx, service+"is_shm_mapped_internal", encodeMapped(arenaBase, s.id))
	if err != nil {
		return fmt.Errorf("asking for the arena: %w", err)
	}
	known, err := decodeMapped(body)
	if err == nil && !known {
		err = errNotMapped
	}
	return err
}

// watch keeps the session alive until it ends.
func (s *Session) watch() {
	ticker := time.NewTicker(s.options.PingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case now := <-ticker.C:
			if err := s.alive(s.life); err != nil {
				s.lose(err)
				return
			}
			s.arena.trim(s.options.KeepBytes, now.Add(-trimAfter))
		}
	}
}

// lose ends the session. Only the first reason counts.
func (s *Session) lose(reason error) {
	s.stop(fmt.Errorf("%w: %s: %w", ErrSessionLost, s.options.Addr, reason))
}

// stop ends the session with an error. When Done is closed, Alloc fails.
func (s *Session) stop(err error) {
	s.arena.retire(err)
	s.end(err)
}

// Alloc returns a Buffer, or an error that wraps ErrFull, ErrSessionLost or
// ErrClosed.
func (s *Session) Alloc(size int) (*Buffer, error) {
	b, err := s.arena.alloc(size)
	if err != nil {
		return nil, fmt.Errorf("allocating shared memory: %w", err)
	}
	return b, nil
}

// Shared reports whether bytes can be those of an Item: whole pages of a Buffer
// that is shared, of a session that lasts.
func (s *Session) Shared(bytes []byte) bool {
	if s.life.Err() != nil {
		return false
	}
	s.arena.mu.Lock()
	defer s.arena.mu.Unlock()
	_, _, err := s.arena.locate(bytes)
	return err == nil
}

// Done is closed when the session is lost or closed.
func (s *Session) Done() <-chan struct{} { return s.life.Done() }

// Err returns why the session ended, or nil.
func (s *Session) Err() error { return context.Cause(s.life) }

// Stats returns the session's state.
func (s *Session) Stats() Stats { return s.arena.stats() }

// Close ends calls in progress, which return ErrClosed, and takes the arena back
// from the process. Buffers stay good until they are freed.
func (s *Session) Close() error {
	s.mu.Lock()
	closed := s.mu.closed
	s.mu.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	s.stop(ErrClosed)
	s.watcher.Wait()
	s.calls.Wait()
	s.unmap()
	return s.conn.Close()
}

// unmap tells the process to forget the arena. One that cannot be told forgets
// it 10 s after the last ping.
func (s *Session) unmap() {
	ctx, cancel := context.WithTimeout(context.Background(), unmapTimeout)
	defer cancel()
	body, err := s.conn.Call(ctx, service+"unmap_shm_internal", encodeID(s.id))
	if err == nil {
		_ = decodeUnmap(body) // what it says changes nothing
	}
}
