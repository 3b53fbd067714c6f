package worker

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxUnread bounds, in bytes, what an answer may be ahead of its client: some
	// thousands of tokens with what was likely for each.
	maxUnread = 16 << 20
	// pieceBytes is how much of it is written at a time.
	pieceBytes = 64 << 10
	// DefaultStall is how long a client may take nothing of its answer.
	DefaultStall = 10 * time.Minute
	// sendBytes bounds what the system holds of an answer. It says that there is room
	// again when a third of that is: with more a slow reader would look like none.
	sendBytes = 128 << 10
)

// An outbox takes an answer as quickly as the engine gives it and passes it on as
// quickly as the client reads it: a slot is free when its answer is computed,
// however slow the reader, as the engine's own are. Its owner calls drain.
type outbox struct {
	http.ResponseWriter
	ctx     context.Context // ends when the client leaves
	control *http.ResponseController
	stall   time.Duration

	more, less chan struct{} // there is something to write, or room again
	begin      sync.Once
	writing    sync.WaitGroup

	mu struct {
		sync.Mutex
		waiting []byte
		unread  int  // bytes that wait or are being written
		flush   bool // what has been written is to be sent, the header at least
		closed  bool
		err     error // of the client's connection
	}
}

// ConnContext is a server's http.Server.ConnContext for the connections of clients.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if buffered, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = buffered.SetWriteBuffer(sendBytes) // the system's own is as good, for most
	}
	return ctx
}

func newOutbox(ctx context.Context, rw http.ResponseWriter, stall time.Duration) *outbox {
	return &outbox{
		ResponseWriter: rw, ctx: ctx, control: http.NewResponseController(rw), stall: stall,
		more: make(chan struct{}, 1), less: make(chan struct{}, 1),
	}
}

// Write keeps a copy of p, once there is room, for the client.
func (o *outbox) Write(p []byte) (int, error) {
	o.start()
	for {
		taken, err := o.take(p)
		switch {
		case err != nil:
			return 0, err
		case taken:
			wake(o.more)
			return len(p), nil
		}
		select {
		case <-o.less:
		case <-o.ctx.Done():
			return 0, context.Cause(o.ctx)
		}
	}
}

func (o *outbox) take(p []byte) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.err != nil || o.mu.unread >= maxUnread {
		return false, o.mu.err
	}
	o.mu.waiting = append(o.mu.waiting, p...)
	o.mu.unread += len(p)
	return true, nil
}

// FlushError sends the header; all that is written is sent.
func (o *outbox) FlushError() error {
	o.mu.Lock()
	o.mu.flush = true
	err := o.mu.err
	o.mu.Unlock()
	o.start()
	wake(o.more)
	return err
}

func (o *outbox) start() { o.begin.Do(func() { o.writing.Go(o.write) }) }

// drain waits until the client has everything, or is gone, or has taken nothing for
// too long.
func (o *outbox) drain() {
	o.mu.Lock()
	o.mu.closed = true
	o.mu.Unlock()
	wake(o.more)
	o.writing.Wait()
}

// write passes on what comes until the end.
func (o *outbox) write() {
	stop := context.AfterFunc(o.ctx, func() { _ = o.control.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		o.mu.Lock()
		waiting, flush, closed := o.mu.waiting, o.mu.flush, o.mu.closed
		o.mu.waiting, o.mu.flush = nil, false
		o.mu.Unlock()
		if len(waiting) == 0 && !flush {
			if closed {
				return
			}
			<-o.more
			continue
		}
		err := o.send(waiting)
		o.mu.Lock()
		o.mu.unread -= len(waiting)
		o.mu.err = err
		o.mu.Unlock()
		wake(o.less)
		if err != nil {
			return
		}
	}
}

// send writes by pieces, each in time.
func (o *outbox) send(all []byte) error {
	for len(all) > 0 {
		piece := all[:min(pieceBytes, len(all))]
		all = all[len(piece):]
		_ = o.control.SetWriteDeadline(time.Now().Add(o.stall)) // a test's recorder has none
		if o.ctx.Err() != nil {
			return context.Cause(o.ctx)
		}
		if _, err := o.ResponseWriter.Write(piece); err != nil {
			return err
		}
	}
	return o.control.Flush()
}

// wake wakes who waits, now or next.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
