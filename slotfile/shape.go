package slotfile

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrFormat is wrapped when a file is damaged or is no slot file.
	ErrFormat = errors.New("slotfile: bad file")
	// ErrUnsupported is wrapped when a file is good, as far as can be told, and
	// its cache cannot be cut into pages.
	ErrUnsupported = errors.New("slotfile: cannot be cut into pages")
	// ErrPage is wrapped when a page's rows are not in the file, or a payload has
	// another size than the shape gives it.
	ErrPage = errors.New("slotfile: no such page")
)

// A Shape is all of a slot file but its tokens, cells and rows: what an engine
// of the same build, model and settings writes and accepts.
type Shape struct {
	// Version is the file's.
	Version uint32
	// Tagged says that the tokens are written in the newer form, with their
	// count and that of media.
	Tagged bool
	// Sections are the cache's.
	Sections []SectionShape
}

// A SectionShape is the form of one section's rows.
type SectionShape struct {
	// Streams is how many streams the section has, Stream the one that holds the
	// slot's cells. With one stream for all slots it is 0.
	Streams, Stream int
	// Sequence is the number that the cells carry.
	Sequence int32
	// Transposed says that values are stored by element, not by token.
	Transposed bool
	// Keys and Values have an element a layer that has any.
	Keys, Values []Rows
}

// Rows is the form of a layer's keys or values.
type Rows struct {
	// Type is the ggml_type.
	Type int32
	// Bytes of one token's row.
	Bytes int
	// Elements is how many elements a row has; it is known, and used, for
	// transposed values only.
	Elements int
}

// PageBytes returns the size of a page's payload.
func (s *SectionShape) PageBytes(pageTokens int) int {
	total := 0
	for _, r := range s.Keys {
		total += r.Bytes
	}
	for _, r := range s.Values {
		total += r.Bytes
	}
	return total * pageTokens
}

// Geometry describes in words what makes two sections' pages the same in form;
// it is for the namespace of page keys. Streams and sequences are not in it,
// since they differ between slots that can exchange pages.
func (s *SectionShape) Geometry() string {
	var b strings.Builder
	fmt.Fprintf(&b, "transposed=%t", s.Transposed)
	describe := func(name string, rows []Rows) {
		for i := 0; i < len(rows); {
			n := 1
			for i+n < len(rows) && rows[i+n] == rows[i] {
				n++
			}
			fmt.Fprintf(&b, " %s=%dx(type %d, %d bytes)", name, n, rows[i].Type, rows[i].Bytes)
			i += n
		}
	}
	describe("keys", s.Keys)
	describe("values", s.Values)
	return b.String()
}

// On returns the shape of the same cache for another slot: the stream and the
// sequence that its cells carry. With one stream for all slots the stream stays.
func (s Shape) On(slot int) Shape {
	sections := make([]SectionShape, len(s.Sections))
	copy(sections, s.Sections)
	for i := range sections {
		if sections[i].Streams > 1 {
			sections[i].Stream = slot
		}
		sections[i].Sequence = int32(slot) //nolint:gosec // slots are few
	}
	s.Sections = sections
	return s
}
