package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"ollamoon/internal/supervise"
	"ollamoon/page"
)

// A stream is one TCP connection over loopback from a process that sends pages
// when asked, and does nothing else.
type stream struct {
	process *supervise.Process
	conn    net.Conn
}

// openStream starts the process, which is told where to connect, how many pages
// to send for each byte that it receives, and their size.
func openStream(ctx context.Context, sender supervise.Command, pages, pageBytes int) (*stream, error) {
	s, err := connectStream(ctx, sender, pages, pageBytes)
	if err != nil {
		return nil, fmt.Errorf("starting the sender of the loopback stream: %w", err)
	}
	return s, nil
}

func connectStream(ctx context.Context, sender supervise.Command, pages, pageBytes int) (*stream, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer listener.Close() //nolint:errcheck // one connection is all that is needed
	sender.Args = append(sender.Args[:len(sender.Args):len(sender.Args)],
		listener.Addr().String(), strconv.Itoa(pages), strconv.Itoa(pageBytes))
	process, err := supervise.Start(sender)
	if err != nil {
		return nil, err
	}
	conn, err := acceptFrom(ctx, process, listener)
	if err != nil {
		process.Kill()
		return nil, fmt.Errorf("%w; its last output:\n%s", err, process.Tail())
	}
	return &stream{process: process, conn: conn}, nil
}

// receive has the pages sent, and reads them into the buffers, which have room
// for a seal behind each page.
func (s *stream) receive(ctx context.Context, buffers [][]byte) error {
	defer context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Now()) })()
	if err := s.conn.SetDeadline(time.Now().Add(callTimeout)); err != nil {
		return err
	}
	_, err := s.conn.Write([]byte{1})
	for i := 0; i < len(buffers) && err == nil; i++ {
		_, err = io.ReadFull(s.conn, buffers[i][:len(buffers[i])-page.TrailerBytes])
	}
	if err != nil {
		return fmt.Errorf("receiving the loopback stream: %w", err)
	}
	return nil
}

// close ends the connection, upon which the process ends.
func (s *stream) close() {
	_ = s.conn.Close() // nothing more is expected
	select {
	case <-s.process.Done():
	case <-time.After(leaveTimeout):
		s.process.Kill()
	}
}

// Send is the process at a loopback stream's other end: it connects to the
// address, and for each byte it receives sends so many pages of random bytes,
// until its input ends or ctx is done.
func Send(ctx context.Context, address string, pages, pageBytes int) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", address)
	if err != nil {
		return fmt.Errorf("connecting to the measuring run: %w", err)
	}
	defer conn.Close() //nolint:errcheck // the receiver has all or wants no more
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	random, all := chaCha(), make([]byte, pages*pageBytes)
	_, _ = random.Read(all) // never fails
	request := make([]byte, 1)
	for {
		if _, err := io.ReadFull(conn, request); err != nil {
			return nil // the end of the run
		}
		if _, err := conn.Write(all); err != nil {
			return fmt.Errorf("sending pages: %w", err)
		}
	}
}
