package structpack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrFormat is returned for a message that no value of its type encodes to: cut
// off, too long, or with a value that the type does not have.
var ErrFormat = errors.New("structpack: malformed message")

// A TypeError is returned for a message of another type than was asked for: the
// other side speaks another version of the protocol.
type TypeError struct {
	Want Type
	Got  Type   // none when the message carries no literal
	Code uint32 // the message's type code, without the bit for a meta byte
}

func (e *TypeError) Error() string {
	got := "without a literal"
	if e.Got != (Type{}) {
		got = "literal " + e.Got.String()
	}
	return fmt.Sprintf("structpack: message of type %08x (%s), want %08x (%s)", e.Code, got, e.Want.code(), e.Want)
}

// Decode reads a message of type t, the value with read. It returns a TypeError
// when the message is of another type, and an error that wraps ErrFormat when the
// message is malformed; what read has set then means nothing.
func Decode(t Type, message []byte, read func(*Reader)) error {
	r := Reader{rest: message}
	if err := r.begin(t); err != nil {
		return err
	}
	read(&r)
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes are left over", len(r.rest))
	}
	return r.err
}

// A Reader takes the fields of a message, in their order. After a failure all
// methods return zero values, and Decode returns the failure.
type Reader struct {
	rest  []byte
	width uint8
	err   error
}

func (r *Reader) begin(t Type) error {
	code := r.U32()
	var meta uint8
	if code&1 != 0 {
		meta = r.U8()
	}
	code &^= 1
	if r.err != nil {
		return r.err
	}
	if meta&metaSizeMask != 0 || meta >= 1<<5 {
		r.fail("meta byte %#x", meta)
		return r.err
	}
	r.width = meta >> metaWidthShift & metaWidthMask
	var got Type
	if meta&metaLiteral != 0 {
		literal, rest, found := bytes.Cut(r.rest, []byte{0})
		if !found {
			r.fail("the literal does not end")
			return r.err
		}
		got, r.rest = Type{string(literal)}, rest
	}
	if code != t.code() || got != (Type{}) && got != t {
		return &TypeError{Want: t, Got: got, Code: code}
	}
	return nil
}

func (r *Reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
	}
	r.rest = nil
}

// take returns the next n bytes, or nil after a failure.
func (r *Reader) take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.rest) {
		r.fail("%d bytes wanted, %d there", n, len(r.rest))
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

// U8 takes a Type U8.
func (r *Reader) U8() uint8 {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// U16 takes a Type U16.
func (r *Reader) U16() uint16 {
	if b := r.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// U32 takes a Type U32.
func (r *Reader) U32() uint32 {
	if b := r.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// U64 takes a Type U64.
func (r *Reader) U64() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// I32 takes a Type I32.
func (r *Reader) I32() int32 { return int32(r.U32()) } //nolint:gosec // two's complement is the encoding

// I64 takes a Type I64.
func (r *Reader) I64() int64 { return int64(r.U64()) } //nolint:gosec // as above

// Bool takes a Type Bool. It also says whether an Expected holds its value, or an
// Optional one, which comes next.
func (r *Reader) Bool() bool {
	b := r.U8()
	if b > 1 {
		r.fail("bool %d", b)
	}
	return b == 1
}

// Alternative takes the index of a Variant with n alternatives; the value of that
// alternative comes next.
func (r *Reader) Alternative(n int) int {
	i := int(r.U8())
	if i >= n {
		r.fail("alternative %d of %d", i, n)
		return 0
	}
	return i
}

// String takes a Type String.
func (r *Reader) String() string { return string(r.take(r.Len())) }

// UUID takes a Type UUID.
func (r *Reader) UUID() [2]uint64 { return [2]uint64{r.U64(), r.U64()} }

// Len takes the length of a Vector, whose elements come next. It is never more
// than the bytes that are left, as each element takes one at least.
func (r *Reader) Len() int {
	var n uint64
	switch r.width {
	case 0:
		n = uint64(r.U8())
	case 1:
		n = uint64(r.U16())
	case 2:
		n = uint64(r.U32())
	default:
		n = r.U64()
	}
	if n > uint64(len(r.rest)) {
		r.fail("length %d with %d bytes left", n, len(r.rest))
		return 0
	}
	return int(n) //nolint:gosec // at most len(r.rest)
}

// ReadSlice takes a Vector, each element with read. It stops at a failure.
func ReadSlice[T any](r *Reader, read func() T) []T {
	n := r.Len()
	elements := make([]T, 0, min(n, 16))
	for range n {
		e := read()
		if r.err != nil {
			return nil
		}
		elements = append(elements, e)
	}
	return elements
}
