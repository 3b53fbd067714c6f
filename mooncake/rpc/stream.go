package rpc

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// A stream is one network connection with calls in progress on it. It ends once,
// with the first failure; its two goroutines end with it.
type stream struct {
	conn     net.Conn
	maxFrame int
	outgoing chan []byte   // frames to write
	done     chan struct{} // closed by fail
	workers  sync.WaitGroup

	mu struct {
		sync.Mutex
		seq     uint32
		waiting map[uint32]chan response // of calls whose answer is still wanted
		heard   time.Time                // when the last answer came
		err     error                    // why the stream ended
	}
}

func newStream(conn net.Conn, maxFrame int) *stream {
	s := &stream{conn: conn, maxFrame: maxFrame, outgoing: make(chan []byte), done: make(chan struct{})}
	s.mu.waiting = map[uint32]chan response{}
	s.workers.Go(s.write)
	s.workers.Go(s.read)
	return s
}

// call sends a request and waits for its answer, ctx, timeout or the stream's
// end, whichever is first.
func (s *stream) call(ctx context.Context, function string, body []byte, timeout time.Duration) (response, error) {
	seq, answer := s.expect()
	begin := time.Now()
	defer s.forget(seq)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case s.outgoing <- Request(function, seq, body):
	case <-s.done:
		return response{}, s.reason()
	case <-ctx.Done():
		s.leave(seq, begin)
		return response{}, ctx.Err()
	case <-timer.C:
		return response{}, s.giveUp()
	}
	select {
	case r := <-answer:
		return r, nil
	case <-s.done:
	case <-ctx.Done():
		s.leave(seq, begin)
		return response{}, ctx.Err()
	case <-timer.C:
		return response{}, s.giveUp()
	}
	select {
	case r := <-answer: // it came just before the end
		return r, nil
	default:
		return response{}, s.reason()
	}
}

// giveUp ends a stream whose server is silent.
func (s *stream) giveUp() error {
	s.fail(fmt.Errorf("%w: another call had no answer in time", ErrBroken))
	return ErrTimeout
}

// silence is how long a server that works is not expected to say nothing at all.
const silence = time.Second

// leave takes out a call that nobody waits for any more. Where the server has said
// nothing for long and no other call waits, the network has lost what was sent, for
// all that is known: the stream ends, as the system would try it again after
// pauses that grow to minutes.
func (s *stream) leave(seq uint32, begin time.Time) {
	s.forget(seq)
	s.mu.Lock()
	silent := len(s.mu.waiting) == 0 && s.mu.heard.Before(begin) && time.Since(begin) >= silence
	s.mu.Unlock()
	if silent {
		s.fail(fmt.Errorf("%w: the server is silent", ErrBroken))
	}
}

// expect takes the next sequence number and the channel that its answer comes on.
func (s *stream) expect() (uint32, <-chan response) {
	answer := make(chan response, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.seq++
	s.mu.waiting[s.mu.seq] = answer
	return s.mu.seq, answer
}

func (s *stream) forget(seq uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.waiting, seq)
}

// write sends frames in the order in which the calls handed them over.
func (s *stream) write() {
	for {
		select {
		case frame := <-s.outgoing:
			if _, err := s.conn.Write(frame); err != nil {
				s.fail(fmt.Errorf("%w: %w", ErrBroken, err))
				return
			}
		case <-s.done:
			return
		}
	}
}

// read hands answers to the calls that wait for them, and drops the others.
func (s *stream) read() {
	r := bufio.NewReader(s.conn)
	for {
		answer, err := readResponse(r, s.maxFrame)
		if err != nil {
			s.fail(err)
			return
		}
		s.mu.Lock()
		s.mu.heard = time.Now()
		waiting := s.mu.waiting[answer.seq]
		delete(s.mu.waiting, answer.seq)
		s.mu.Unlock()
		if waiting != nil {
			waiting <- answer
		}
	}
}

// fail ends the stream. Only the first reason counts.
func (s *stream) fail(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.err != nil {
		return
	}
	s.mu.err = reason
	close(s.done)
	_ = s.conn.Close() // the reason is known already
}

func (s *stream) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.err
}

func (s *stream) ended() bool { return s.reason() != nil }

func (s *stream) wait() { s.workers.Wait() }
