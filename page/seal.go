package page

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"github.com/zeebo/xxh3"
	"lukechampine.com/blake3"

	"ollamoon/prefix"
)

// TrailerBytes is what a seal adds to a payload.
const TrailerBytes = 80

// KeyBytes is the length of a sealing key.
const KeyBytes = 32

const (
	trailerVersion = 1
	sumOffset      = 48
)

var magic = [4]byte{'O', 'M', 'P', 'G'}

// What is wrong with an object that is not the page that was asked for. Each
// wraps ErrSeal.
var (
	// ErrSeal is wrapped by every error of Open.
	ErrSeal = errors.New("page: the seal is broken")
	// ErrUnsealed: no trailer of a known version ends the object.
	ErrUnsealed = fmt.Errorf("%w: no seal", ErrSeal)
	// ErrLength: the object or its payload has another length.
	ErrLength = fmt.Errorf("%w: other length", ErrSeal)
	// ErrForeign: a good seal of another page or section.
	ErrForeign = fmt.Errorf("%w: another page", ErrSeal)
	// ErrKind: sealed by a checksum where a keyed MAC is asked for, or the other
	// way round.
	ErrKind = fmt.Errorf("%w: other kind of sum", ErrSeal)
	// ErrSum: the bytes are not those that were sealed, or were sealed with
	// another key.
	ErrSum = fmt.Errorf("%w: sum does not match", ErrSeal)
)

// Reason returns a short constant word for an error of Open, for counters:
// "unsealed", "length", "foreign", "kind" or "sum", and "" for other errors.
func Reason(err error) string {
	for _, r := range []struct {
		err  error
		word string
	}{{ErrUnsealed, "unsealed"}, {ErrLength, "length"}, {ErrForeign, "foreign"}, {ErrKind, "kind"}, {ErrSum, "sum"}} {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return ""
}

// An ID is what a seal vouches for besides the bytes.
type ID struct {
	Hash    prefix.Hash
	Section Section
}

type sumKind uint8

const (
	sumXXH3   sumKind = 1
	sumBLAKE3 sumKind = 2
)

// A Sealer seals and opens pages. The zero value uses a checksum, which finds
// accidents and nothing else. It is safe for concurrent use.
type Sealer struct {
	key []byte
}

// NewKeyedSealer returns a Sealer that uses a MAC with the given key of
// KeyBytes bytes: only holders of the key can make pages it opens.
func NewKeyedSealer(key []byte) (*Sealer, error) {
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("page: a sealing key has %d bytes, not %d", KeyBytes, len(key))
	}
	return &Sealer{key: bytes.Clone(key)}, nil
}

// Keyed reports whether the Sealer uses a MAC.
func (s *Sealer) Keyed() bool { return s.key != nil }

func (s *Sealer) kind() sumKind {
	if s.Keyed() {
		return sumBLAKE3
	}
	return sumXXH3
}

// Seal writes the trailer into the last TrailerBytes bytes of object; what is
// before them is the payload.
func (s *Sealer) Seal(object []byte, id ID) error {
	n := len(object) - TrailerBytes
	if n < 0 {
		return fmt.Errorf("page: an object of %d bytes has no room for a seal of %d", len(object), TrailerBytes)
	}
	trailer := object[n:]
	s.header(trailer, n, id)
	s.sum(trailer[sumOffset:sumOffset], object[:n+sumOffset])
	return nil
}

// Open checks that object is the sealed page id and returns its payload, which
// shares object's memory. Every error wraps ErrSeal.
func (s *Sealer) Open(object []byte, id ID) ([]byte, error) {
	n := len(object) - TrailerBytes
	if n < 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrLength, len(object))
	}
	trailer := object[n:]
	if !bytes.Equal(trailer[:4], magic[:]) || trailer[4] != trailerVersion || trailer[7] != 0 {
		return nil, ErrUnsealed
	}
	if got := binary.LittleEndian.Uint64(trailer[8:]); got != uint64(n) {
		return nil, fmt.Errorf("%w: the seal is of %d bytes, the payload has %d", ErrLength, got, n)
	}
	if sumKind(trailer[6]) != s.kind() {
		return nil, ErrKind
	}
	var want [TrailerBytes]byte
	s.header(want[:], n, id)
	if !bytes.Equal(trailer[:sumOffset], want[:sumOffset]) {
		return nil, ErrForeign
	}
	s.sum(want[sumOffset:sumOffset], object[:n+sumOffset])
	if subtle.ConstantTimeCompare(trailer[sumOffset:], want[sumOffset:]) != 1 {
		return nil, ErrSum
	}
	return object[:n:n], nil
}

// header writes everything of a trailer but the sum, and zeroes there.
func (s *Sealer) header(trailer []byte, payload int, id ID) {
	clear(trailer)
	copy(trailer, magic[:])
	trailer[4] = trailerVersion
	trailer[5] = byte(id.Section)
	trailer[6] = byte(s.kind())
	binary.LittleEndian.PutUint64(trailer[8:], uint64(payload)) //nolint:gosec // a length
	copy(trailer[16:], id.Hash[:])
}

// sum appends the sum of data to dst, which has the room.
func (s *Sealer) sum(dst, data []byte) {
	if s.key == nil {
		sum := xxh3.Hash128(data).Bytes()
		_ = append(dst, sum[:]...)
		return
	}
	var h hash.Hash = blake3.New(32, s.key)
	_, _ = h.Write(data)
	_ = h.Sum(dst)
}
