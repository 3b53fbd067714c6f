package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A Target is where the data port of an endpoint is and how it is spoken to.
type Target struct {
	Addr    string // host:port
	Version int    // of the protocol: 1 or 2
	// Buffers are the ranges of the owner's memory that it offers.
	Buffers []Range
}

// A Range is a piece of an owner's memory.
type Range struct {
	Addr   uint64 `json:"addr"`
	Length uint64 `json:"length"`
}

// holds reports whether one of the target's buffers has all of the range.
func (t Target) holds(addr uint64, length int) bool {
	size := uint64(length) //nolint:gosec // a length
	for _, b := range t.Buffers {
		if addr >= b.Addr && addr-b.Addr <= b.Length && size <= b.Length-(addr-b.Addr) {
			return true
		}
	}
	return false
}

// A Resolver finds the Target of an endpoint, the name by which a replica's
// descriptor calls its segment's owner. It asks anew at each call; a Pool
// remembers the answers. Its errors wrap ErrResolve or are the context's.
type Resolver interface {
	Resolve(ctx context.Context, endpoint string) (Target, error)
}

// maxMetadataBytes bounds what is read of an answer. It is what the Transfer
// Engine itself accepts in a handshake.
const maxMetadataBytes = 1 << 20

// A segment is what metadata says of an endpoint, as far as TCP needs it.
type segment struct {
	Protocol string  `json:"protocol"`
	Host     string  `json:"tcp_data_host"` // absent before 0.3.13
	Port     int     `json:"tcp_data_port"`
	Version  int     `json:"tcp_proto_version"` // absent before 0.3.12
	Buffers  []Range `json:"buffers"`
}

func decodeSegment(data []byte) (segment, error) {
	var s segment
	if err := json.Unmarshal(data, &s); err != nil {
		return segment{}, fmt.Errorf("segment description: %w", err)
	}
	if !strings.Contains(","+s.Protocol+",", ",tcp,") {
		return segment{}, fmt.Errorf("segment description: protocol %q, not tcp", s.Protocol)
	}
	if s.Port <= 0 || s.Port > 65535 {
		return segment{}, fmt.Errorf("segment description: data port %d", s.Port)
	}
	return s, nil
}

var errNoHost = errors.New("segment description: no host")

// target puts a segment's Target together; host is used when the segment does
// not say where its data port is.
func (s segment) target(host string) (Target, error) {
	if s.Host != "" {
		host = s.Host
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if host == "" {
		return Target{}, errNoHost
	}
	version := 1
	if s.Version >= 2 {
		version = 2
	}
	return Target{
		Addr:    net.JoinHostPort(host, strconv.Itoa(s.Port)),
		Version: version,
		Buffers: s.Buffers,
	}, nil
}

// resolveError says that an endpoint was not resolved, or that the context
// ended the attempt.
func resolveError(ctx context.Context, endpoint string, err error) error {
	if cause := ended(ctx); cause != nil {
		return fmt.Errorf("resolving endpoint %q: %w", endpoint, cause)
	}
	return fmt.Errorf("%w: %q: %w", ErrResolve, endpoint, err)
}
