package transfer

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"
)

// handshakeMetadata is the type byte of a handshake that asks for a segment's
// description.
const handshakeMetadata = 1

// P2PHandshake returns a Resolver that asks the owner itself, whose endpoint is
// the address of its handshake port.
func P2PHandshake() Resolver { return p2pHandshake{} }

type p2pHandshake struct{}

func (p2pHandshake) Resolve(ctx context.Context, endpoint string) (Target, error) {
	t, err := resolveByHandshake(ctx, endpoint)
	if err != nil {
		return Target{}, resolveError(ctx, endpoint, err)
	}
	return t, nil
}

func resolveByHandshake(ctx context.Context, endpoint string) (Target, error) {
	host, _, err := net.SplitHostPort(endpoint)
	if err != nil {
		return Target{}, fmt.Errorf("endpoint: %w", err)
	}
	dialer := net.Dialer{Timeout: metadataTimeout}
	c, err := dialer.DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return Target{}, fmt.Errorf("handshake: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer func() {
		stop()
		// The owner answers one handshake at a time, and ends it when we close.
		_ = c.Close()
	}()
	if err := c.SetDeadline(time.Now().Add(metadataTimeout)); err != nil {
		return Target{}, fmt.Errorf("handshake: %w", err)
	}
	reply, err := exchange(c, []byte("{}"))
	if err != nil {
		return Target{}, fmt.Errorf("handshake: %w", err)
	}
	s, err := decodeSegment(reply)
	if err != nil {
		return Target{}, err
	}
	return s.target(host)
}

// exchange sends a metadata message and returns the one that answers. A
// message is the length of the rest as a little-endian uint64, a type byte,
// and JSON.
func exchange(c io.ReadWriter, message []byte) ([]byte, error) {
	request := binary.LittleEndian.AppendUint64(nil, uint64(len(message))+1)
	request = append(request, handshakeMetadata)
	request = append(request, message...)
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	return readMessage(c)
}

func readMessage(r io.Reader) ([]byte, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint64(head[:8])
	if length < 1 || length > maxMetadataBytes {
		return nil, fmt.Errorf("a message of %d bytes", length)
	}
	if head[8] != handshakeMetadata {
		return nil, fmt.Errorf("a message of type %d", head[8])
	}
	// What is promised is not allocated before it comes.
	body, err := io.ReadAll(io.LimitReader(r, int64(length)-1))
	if err != nil {
		return nil, err
	}
	if len(body) != int(length)-1 {
		return nil, io.ErrUnexpectedEOF
	}
	return body, nil
}
