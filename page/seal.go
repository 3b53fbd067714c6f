package page

import (
	"bytes"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

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

// reasons are short constant words for the errors of Open.
var reasons = []struct {
	err  error
	word string
}{{ErrUnsealed, "unsealed"}, {ErrLength, "length"}, {ErrForeign, "foreign"}, {ErrKind, "kind"}, {ErrSum, "sum"}}

// Reasons are the words that Reason has.
func Reasons() []string {
	words := make([]string, len(reasons))
	for i, r := range reasons {
		words[i] = r.word
	}
	return words
}

// Reason returns a short constant word for an error of Open, for counters:
// "unsealed", "length", "foreign", "kind" or "sum", and "" for other errors.
func Reason(err error) string {
	for _, r := range reasons {
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
	sum := s.newSum()
	_, _ = sum.Write(object[:n+sumOffset]) // sums do not fail
	sum.finish(trailer[sumOffset:])
	return nil
}

// Open checks that object is the sealed page id and returns its payload, which
// shares object's memory. Every error wraps ErrSeal.
func (s *Sealer) Open(object []byte, id ID) ([]byte, error) {
	return s.Check(object, id).Open()
}

// Check returns a check of an object that is still arriving: what is checked as
// it comes is in the processor's cache, and need not be fetched from memory again.
func (s *Sealer) Check(object []byte, id ID) *Check {
	return &Check{sealer: s, object: object, id: id}
}

// A Check opens a sealed page while it arrives. It is not safe for concurrent
// use.
type Check struct {
	sealer *Sealer
	object []byte
	id     ID
	sum    sum
	summed int // bytes of object, from the first
}

// Arrived says that the first n bytes of the object are there. When n is less
// than it was, the object arrives anew.
func (c *Check) Arrived(n int) {
	n = min(n, len(c.object)-TrailerBytes+sumOffset)
	if c.sum == nil || n < c.summed {
		c.sum, c.summed = c.sealer.newSum(), 0
	}
	if n > c.summed {
		_, _ = c.sum.Write(c.object[c.summed:n]) // sums do not fail
		c.summed = n
	}
}

// Open checks that the object, all of which is there, is the sealed page and
// returns its payload, which shares its memory. Every error wraps ErrSeal.
func (c *Check) Open() ([]byte, error) {
	n := len(c.object) - TrailerBytes
	if n < 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrLength, len(c.object))
	}
	trailer := c.object[n:]
	if !bytes.Equal(trailer[:4], magic[:]) || trailer[4] != trailerVersion || trailer[7] != 0 {
		return nil, ErrUnsealed
	}
	if got := binary.LittleEndian.Uint64(trailer[8:]); got != uint64(n) {
		return nil, fmt.Errorf("%w: the seal is of %d bytes, the payload has %d", ErrLength, got, n)
	}
	if sumKind(trailer[6]) != c.sealer.kind() {
		return nil, ErrKind
	}
	var want [TrailerBytes]byte
	c.sealer.header(want[:], n, c.id)
	if !bytes.Equal(trailer[:sumOffset], want[:sumOffset]) {
		return nil, ErrForeign
	}
	c.Arrived(len(c.object))
	c.sum.finish(want[sumOffset:])
	if subtle.ConstantTimeCompare(trailer[sumOffset:], want[sumOffset:]) != 1 {
		return nil, ErrSum
	}
	return c.object[:n:n], nil
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

// A sum sums what is written to it.
type sum interface {
	io.Writer
	finish(dst []byte) // writes the sum at the start of dst
}

func (s *Sealer) newSum() sum {
	if s.Keyed() {
		return keyedSum{blake3.New(32, s.key)}
	}
	return checksum{xxh3.New()}
}

type checksum struct{ *xxh3.Hasher }

func (c checksum) finish(dst []byte) {
	sum := c.Sum128().Bytes()
	copy(dst, sum[:])
}

type keyedSum struct{ *blake3.Hasher }

func (k keyedSum) finish(dst []byte) { k.Sum(dst[:0]) }
