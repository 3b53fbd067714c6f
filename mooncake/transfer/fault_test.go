package transfer

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

const faultBytes = 3 << 20 // more than the sockets' buffers and lowWater

func TestReadFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		version int
		answer  func(*net.TCPConn)
		want    error
		also    error
	}{
		{"short status", 2, func(c *net.TCPConn) { _, _ = c.Write(status(statusOK)[:5]) }, ErrUnreachable, io.ErrUnexpectedEOF},
		{"wrong magic", 2, func(c *net.TCPConn) { _, _ = c.Write(make([]byte, 64)) }, ErrProtocol, nil},
		{"unknown code", 2, func(c *net.TCPConn) { _, _ = c.Write(status(77)) }, ErrProtocol, nil},
		{"rejected", 2, func(c *net.TCPConn) { _, _ = c.Write(status(statusRejected)) }, ErrRejected, nil},
		{"closed before the status", 2, func(*net.TCPConn) {}, ErrUnreachable, io.ErrUnexpectedEOF},
		{"closed before the data", 1, func(*net.TCPConn) {}, ErrUnreachable, io.ErrUnexpectedEOF},
		{"half closed within the data", 2, func(c *net.TCPConn) {
			_, _ = c.Write(status(statusOK))
			_, _ = c.Write(make([]byte, faultBytes/2))
			_ = c.CloseWrite()
			untilClosed(c)
		}, ErrUnreachable, io.ErrUnexpectedEOF},
		{"reset within the data", 1, func(c *net.TCPConn) {
			_, _ = c.Write(make([]byte, faultBytes/2))
			_ = c.SetLinger(0)
		}, ErrUnreachable, nil},
		{"stall before the status", 2, func(c *net.TCPConn) { untilClosed(c) }, ErrUnreachable, os.ErrDeadlineExceeded},
		{"stall within the data", 2, func(c *net.TCPConn) {
			_, _ = c.Write(status(statusOK))
			_, _ = c.Write(make([]byte, faultBytes-1))
			untilClosed(c)
		}, ErrUnreachable, os.ErrDeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t, func(_ int, conn *net.TCPConn) {
				request(conn)
				c.answer(conn)
			})
			pool := newTestPool(t, Options{StallTimeout: 300 * time.Millisecond}, p.target(c.version))
			err := pool.Read(testContext(t), "owner", testBase, make([]byte, faultBytes))
			check(t, pool, err, c.want, c.also)
		})
	}
}

func TestWriteFaults(t *testing.T) {
	body := make([]byte, faultBytes)
	for _, c := range []struct {
		name    string
		version int
		answer  func(*net.TCPConn)
		want    error
		also    error
	}{
		{"rejected, then closed at once", 2, func(c *net.TCPConn) {
			_, _ = c.Write(status(statusRejected))
			_ = c.CloseWrite()
			time.Sleep(100 * time.Millisecond)
		}, ErrRejected, nil},
		{"rejected after the body", 2, func(c *net.TCPConn) {
			_, _ = io.CopyN(io.Discard, c, faultBytes)
			_, _ = c.Write(status(statusRejected))
		}, ErrRejected, nil},
		{"wrong magic", 2, func(c *net.TCPConn) {
			_, _ = io.CopyN(io.Discard, c, faultBytes)
			_, _ = c.Write(make([]byte, 8))
		}, ErrProtocol, nil},
		{"no status", 2, func(c *net.TCPConn) { _, _ = io.CopyN(io.Discard, c, faultBytes) }, ErrUnreachable, io.ErrUnexpectedEOF},
		{"stall within the body", 2, func(c *net.TCPConn) { time.Sleep(2 * time.Second) }, ErrUnreachable, os.ErrDeadlineExceeded},
		{"reset within the body", 1, func(c *net.TCPConn) { _ = c.SetLinger(0) }, ErrUnreachable, nil},
		{"no answer to the fence", 1, func(c *net.TCPConn) { _, _ = io.CopyN(io.Discard, c, faultBytes+headerBytes) }, ErrUnreachable, io.ErrUnexpectedEOF},
		{"fence of another write", 1, func(c *net.TCPConn) {
			_, _ = io.CopyN(io.Discard, c, faultBytes)
			if op, size := request(c); op == opRead && size == 1 {
				_, _ = c.Write([]byte{99})
			}
		}, ErrProtocol, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPeer(t, func(_ int, conn *net.TCPConn) {
				request(conn)
				c.answer(conn)
			})
			pool := newTestPool(t, Options{StallTimeout: 300 * time.Millisecond}, p.target(c.version))
			err := pool.Write(testContext(t), "owner", testBase, body)
			check(t, pool, err, c.want, c.also)
		})
	}
}

// check looks at the error of a request that failed, and that its connection
// is not kept.
func check(t *testing.T, pool *Pool, err error, want, also error) {
	t.Helper()
	if !errors.Is(err, want) || also != nil && !errors.Is(err, also) {
		t.Errorf("error %v, want %v and %v", err, want, also)
	}
	if s := pool.Stats(); s.Idle != 0 || s.BytesRead != 0 || s.BytesWritten != 0 {
		t.Errorf("after a failed request: %+v", s)
	}
}
