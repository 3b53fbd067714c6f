package rpc

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the protocol numbers functions by it; nothing is protected
	"encoding/binary"
	"fmt"
	"io"
)

const (
	magic               = 21
	requestHeaderBytes  = 20
	responseHeaderBytes = 16
)

// Request returns the frame of a call, for those who compare it with a capture.
func Request(function string, seq uint32, body []byte) []byte {
	sum := md5.Sum([]byte(function)) //nolint:gosec // as above
	frame := make([]byte, requestHeaderBytes, requestHeaderBytes+len(body))
	frame[0] = magic
	binary.LittleEndian.PutUint32(frame[4:], seq)
	binary.LittleEndian.PutUint32(frame[8:], binary.BigEndian.Uint32(sum[:4]))
	binary.LittleEndian.PutUint32(frame[12:], uint32(len(body))) //nolint:gosec // Call checks it against MaxFrame
	return append(frame, body...)
}

type response struct {
	code uint8
	seq  uint32
	body []byte
}

// readResponse reads one frame of at most maxFrame bytes. Memory is taken as the
// bytes arrive.
func readResponse(r io.Reader, maxFrame int) (response, error) {
	var header [responseHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return response{}, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if header[0] != magic || header[1] != 0 {
		return response{}, fmt.Errorf("%w: a frame starts with %x", ErrProtocol, header[:4])
	}
	length := binary.LittleEndian.Uint32(header[8:])
	attachment := binary.LittleEndian.Uint32(header[12:])
	if uint64(length)+uint64(attachment) > uint64(maxFrame) { //nolint:gosec // positive
		return response{}, fmt.Errorf("%w: a frame of %d and %d bytes, at most %d are read", ErrProtocol, length, attachment, maxFrame)
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(length)); err != nil {
		return response{}, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	if _, err := io.CopyN(io.Discard, r, int64(attachment)); err != nil {
		return response{}, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return response{code: header[2], seq: binary.LittleEndian.Uint32(header[4:]), body: body.Bytes()}, nil
}
