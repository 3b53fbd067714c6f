package structpack

import (
	"encoding/binary"
	"math"
)

// The meta byte.
const (
	metaLiteral    = 1 << 2
	metaWidthShift = 3
	metaWidthMask  = 3
	metaSizeMask   = 3 // the width of a message length; only compatible<T> has one
)

// Encode returns the message of type t whose value write appends. It calls write
// once more when a container turns out to need wider lengths than one byte, so
// write must append the same each time. That what write appends is of type t is
// up to write.
func Encode(t Type, write func(*Writer)) []byte {
	w := Writer{buf: make([]byte, 0, 256)}
	w.begin(t)
	write(&w)
	if width := widthFor(w.longest); width > 0 {
		w.width = width
		w.begin(t)
		write(&w)
	}
	return w.buf
}

// widthFor returns how many times the one byte of a length is to be doubled so
// that n fits.
func widthFor(n uint64) uint8 {
	switch {
	case n <= math.MaxUint8:
		return 0
	case n <= math.MaxUint16:
		return 1
	case n <= math.MaxUint32:
		return 2
	default:
		return 3
	}
}

// A Writer appends the fields of a message, in their order.
type Writer struct {
	buf     []byte
	width   uint8  // of lengths: 1 << width bytes
	longest uint64 // container seen
}

func (w *Writer) begin(t Type) {
	w.buf = binary.LittleEndian.AppendUint32(w.buf[:0], t.code()|1)
	w.buf = append(w.buf, metaLiteral|w.width<<metaWidthShift)
	w.buf = append(w.buf, t.literal...)
	w.buf = append(w.buf, 0)
}

// U8 appends a Type U8.
func (w *Writer) U8(v uint8) { w.buf = append(w.buf, v) }

// U16 appends a Type U16.
func (w *Writer) U16(v uint16) { w.buf = binary.LittleEndian.AppendUint16(w.buf, v) }

// U32 appends a Type U32.
func (w *Writer) U32(v uint32) { w.buf = binary.LittleEndian.AppendUint32(w.buf, v) }

// U64 appends a Type U64.
func (w *Writer) U64(v uint64) { w.buf = binary.LittleEndian.AppendUint64(w.buf, v) }

// I32 appends a Type I32.
func (w *Writer) I32(v int32) { w.U32(uint32(v)) } //nolint:gosec // two's complement is the encoding

// I64 appends a Type I64.
func (w *Writer) I64(v int64) { w.U64(uint64(v)) } //nolint:gosec // as above

// Bool appends a Type Bool; it also starts an Expected (true, then the value) or
// an Optional.
func (w *Writer) Bool(v bool) {
	if v {
		w.U8(1)
	} else {
		w.U8(0)
	}
}

// String appends a Type String.
func (w *Writer) String(s string) {
	w.Len(len(s))
	w.buf = append(w.buf, s...)
}

// UUID appends a Type UUID.
func (w *Writer) UUID(id [2]uint64) {
	w.U64(id[0])
	w.U64(id[1])
}

// Len starts a Vector of n elements.
func (w *Writer) Len(n int) {
	length := uint64(n) //nolint:gosec // a length
	w.longest = max(w.longest, length)
	switch w.width {
	case 0:
		w.U8(uint8(length)) //nolint:gosec // Encode starts over with a wider one when it does not fit
	case 1:
		w.U16(uint16(length)) //nolint:gosec // as above
	case 2:
		w.U32(uint32(length)) //nolint:gosec // as above
	default:
		w.U64(length)
	}
}

// WriteSlice appends a Vector, each element with write.
func WriteSlice[T any](w *Writer, elements []T, write func(T)) {
	w.Len(len(elements))
	for _, e := range elements {
		write(e)
	}
}
