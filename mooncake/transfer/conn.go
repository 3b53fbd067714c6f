package transfer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

const (
	opRead  = 0
	opWrite = 1
	// flagV2 in the operation asks for statuses.
	flagV2 = 0x80

	headerBytes = 24
	statusBytes = 8

	statusMagic    = 0x4D435456 // the status's upper half
	statusOK       = 0
	statusRejected = 1

	// writeChunk is how much is given to the socket between two looks at the
	// clock.
	writeChunk = 1 << 20
	// lowWater is how much of a large read must have come before the reader is
	// woken. An owner sends 64 KiB at a time: waking for each costs a switch of
	// threads each.
	lowWater = 1 << 20
	// loopbackBuffer is the send buffer towards this host. What fits the
	// processor's caches is copied faster than what the kernel would choose. It
	// is not set towards other hosts, where the buffer limits what is in flight.
	loopbackBuffer = 512 << 10
	// rejectionWait is how long a broken write waits for the status that says
	// why.
	rejectionWait = time.Second
)

// A conn is a connection to an owner's data port. It serves one request at a
// time, and none after an error.
type conn struct {
	net.Conn
	raw    syscall.RawConn // nil when the connection has none
	target Target
	stall  time.Duration
	armed  time.Time // when the deadline was last moved
	idle   time.Time // since when it waits in the pool

	// Scratch, here so that a request allocates nothing.
	header [headerBytes]byte
	fence  [headerBytes]byte
	small  [statusBytes]byte
	vector [3][]byte
}

func newConn(c net.Conn, target Target, stall time.Duration) *conn {
	n := &conn{Conn: c, target: target, stall: stall}
	if tcp, ok := c.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			n.raw = raw
		}
		if remote, ok := tcp.RemoteAddr().(*net.TCPAddr); ok && remote.IP.IsLoopback() {
			_ = tcp.SetWriteBuffer(loopbackBuffer) // only makes writes faster
		}
	}
	return n
}

// read fills dst from the owner's memory at addr. arrived, if not nil, is told how
// much has come, first of all 0.
func (c *conn) read(addr uint64, dst []byte, arrived func(n int)) error {
	if arrived == nil {
		arrived = func(int) {}
	}
	arrived(0)
	c.arm(time.Now())
	c.encode(&c.header, opRead, addr, len(dst))
	if _, err := c.Write(c.header[:]); err != nil {
		return fmt.Errorf("sending the request: %w", err)
	}
	if c.target.Version >= 2 {
		if err := c.status(); err != nil {
			return err
		}
	}
	n := 0
	if len(dst) > lowWater {
		c.setLowWater(lowWater)
		var err error
		if n, err = c.fillTo(dst, len(dst)-lowWater, arrived); err != nil {
			return fmt.Errorf("after %d of %d bytes: %w", n, len(dst), err)
		}
		c.setLowWater(1)
	}
	if m, err := c.fill(dst[n:]); err != nil {
		return fmt.Errorf("after %d of %d bytes: %w", n+m, len(dst), err)
	}
	return nil
}

// write sends src to the owner's memory at addr and returns when the owner has
// put it there.
func (c *conn) write(addr uint64, src []byte) error {
	c.arm(time.Now())
	c.encode(&c.header, opWrite, addr, len(src))
	var fence []byte
	if c.target.Version < 2 {
		c.encode(&c.fence, opRead, addr+uint64(len(src))-1, 1)
		fence = c.fence[:]
	}
	n, err := c.send(c.header[:], src, fence)
	if err != nil {
		if c.target.Version >= 2 && c.wasRejected() {
			return fmt.Errorf("%w by the owner", ErrRejected)
		}
		return fmt.Errorf("after %d of %d bytes: %w", n, len(src), err)
	}
	if c.target.Version >= 2 {
		return c.status()
	}
	if _, err := c.fill(c.small[:1]); err != nil {
		return fmt.Errorf("waiting for the fence: %w", err)
	}
	if c.small[0] != src[len(src)-1] {
		return fmt.Errorf("%w: the last byte written reads back as another", ErrProtocol)
	}
	return nil
}

func (c *conn) encode(header *[headerBytes]byte, op byte, addr uint64, size int) {
	if c.target.Version >= 2 {
		op |= flagV2
	}
	binary.LittleEndian.PutUint64(header[0:], uint64(size)) //nolint:gosec // a length
	binary.LittleEndian.PutUint64(header[8:], addr)
	header[16] = op
}

// status reads a status and says what it means.
func (c *conn) status() error {
	if _, err := c.fill(c.small[:]); err != nil {
		return fmt.Errorf("waiting for the status: %w", err)
	}
	code, magic := binary.LittleEndian.Uint32(c.small[:]), binary.LittleEndian.Uint32(c.small[4:])
	switch {
	case magic != statusMagic:
		return fmt.Errorf("%w: status %x", ErrProtocol, c.small)
	case code == statusOK:
		return nil
	case code == statusRejected:
		return fmt.Errorf("%w by the owner", ErrRejected)
	}
	return fmt.Errorf("%w: unknown status code %d", ErrProtocol, code)
}

// wasRejected looks for the status of a write that the owner refused while it
// was still being sent.
func (c *conn) wasRejected() bool {
	if c.SetReadDeadline(time.Now().Add(rejectionWait)) != nil {
		return false
	}
	c.armed = time.Now()
	return errors.Is(c.status(), ErrRejected)
}

// fill reads until dst is full and returns how much came.
func (c *conn) fill(dst []byte) (int, error) { return c.fillTo(dst, len(dst), func(int) {}) }

// fillTo reads into dst until at least enough has come, and returns how much.
func (c *conn) fillTo(dst []byte, enough int, arrived func(n int)) (int, error) {
	n := 0
	for n < enough {
		m, err := c.Read(dst[n:])
		n += m
		arrived(n)
		if err != nil && n < enough {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
		c.rearm()
	}
	return n, nil
}

// send writes header, body and tail, the body in chunks, and returns how much
// of all was taken. Header and first chunk go in one call, last chunk and tail
// too.
func (c *conn) send(header, body, tail []byte) (int, error) {
	sent := 0
	for first := true; first || len(body) > 0; first = false {
		chunk := body[:min(len(body), writeChunk)]
		body = body[len(chunk):]
		pieces := net.Buffers(c.vector[:0])
		if first {
			pieces = append(pieces, header)
		}
		pieces = append(pieces, chunk)
		if len(body) == 0 && tail != nil {
			pieces = append(pieces, tail)
		}
		n, err := pieces.WriteTo(c.Conn)
		clear(c.vector[:])
		sent += int(n)
		if err != nil {
			return sent, err
		}
		c.rearm()
	}
	return sent, nil
}

// arm gives the peer until a stall timeout from now to move a byte.
func (c *conn) arm(now time.Time) {
	c.armed = now
	// A connection that was closed under us fails at its next use.
	_ = c.SetDeadline(now.Add(c.stall))
}

// rearm arms again when the last time is a while ago, after progress.
func (c *conn) rearm() {
	if now := time.Now(); now.Sub(c.armed) > c.stall/8 {
		c.arm(now)
	}
}

// reset closes the connection so that what is still in its buffers is dropped,
// not sent.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
