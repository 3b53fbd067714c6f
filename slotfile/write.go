package slotfile

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
)

// Pages are consecutive pages of one section, for Write.
type Pages struct {
	// First is the number of the first page: 0, or later where only the end of a
	// prefix is needed (a sliding window).
	First int
	// Payloads are the pages' rows, as ReadPage gives them.
	Payloads [][]byte
	// Turn is how many of the first pages have their cells behind those of the
	// others, as in a ring of cells that has been gone round. An engine fills its
	// cells in the order of the file, and the last bits of what it computes depend
	// on the order.
	Turn int
}

// Write makes a slot file that an engine of the given shape restores: tokens,
// and for each section the rows of its pages. Tokens and pages must fit: the
// last page of each section ends where the tokens end.
//
// The payloads are written from where they are.
func (s Shape) Write(w io.Writer, tokens []int32, pageTokens int, sections []Pages) error {
	if err := s.check(tokens, pageTokens, sections); err != nil {
		return err
	}
	out := &writer{to: w, w: bufio.NewWriterSize(w, largeBytes)}
	out.head(&s, tokens)
	for i, p := range sections {
		turned := slices.Concat(p.Payloads[p.Turn:], p.Payloads[:p.Turn])
		out.section(&s.Sections[i], pageTokens, p.span(), func(offset, n int) {
			for _, payload := range turned {
				out.bytes(payload[offset : offset+n])
			}
		})
	}
	return out.end()
}

// A span is which pages of a section a file has.
type span struct{ first, count, turn int }

func (p Pages) span() span { return span{p.First, len(p.Payloads), p.Turn} }

func (s span) check(section, pageTokens, tokens int) error {
	if s.turn < 0 || s.turn > s.count {
		return fmt.Errorf("%w: section %d is turned by %d of %d pages", ErrPage, section, s.turn, s.count)
	}
	if s.first < 0 || s.count <= 0 || (s.first+s.count)*pageTokens != tokens {
		return fmt.Errorf("%w: section %d has %d pages from %d on for %d tokens", ErrPage, section, s.count, s.first, tokens)
	}
	return nil
}

func (s Shape) check(tokens []int32, pageTokens int, sections []Pages) error {
	if len(sections) != len(s.Sections) {
		return fmt.Errorf("%w: pages of %d sections for a cache of %d", ErrPage, len(sections), len(s.Sections))
	}
	if pageTokens <= 0 || len(tokens) == 0 || len(tokens)%pageTokens != 0 {
		return fmt.Errorf("%w: %d tokens are no whole pages of %d", ErrPage, len(tokens), pageTokens)
	}
	for i, p := range sections {
		if err := p.span().check(i, pageTokens, len(tokens)); err != nil {
			return err
		}
		want := s.Sections[i].PageBytes(pageTokens)
		for _, payload := range p.Payloads {
			if len(payload) != want {
				return fmt.Errorf("%w: section %d: a payload of %d bytes for a page of %d", ErrPage, i, len(payload), want)
			}
		}
	}
	return nil
}

// writer writes words; its first error stays.
type writer struct {
	to  io.Writer
	w   *bufio.Writer // small writes to it, put together
	err error
}

// largeBytes is from where on bytes are written from where they are.
const largeBytes = 32 << 10

func (w *writer) bytes(b []byte) {
	if w.err == nil && len(b) >= largeBytes {
		if w.err = w.w.Flush(); w.err == nil {
			_, w.err = w.to.Write(b)
		}
		return
	}
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

// end writes what is still to be written.
func (w *writer) end() error {
	if w.err == nil {
		w.err = w.w.Flush()
	}
	if w.err != nil {
		return fmt.Errorf("writing a slot file: %w", w.err)
	}
	return nil
}

func (w *writer) u32(v uint32) { w.bytes(binary.LittleEndian.AppendUint32(w.w.AvailableBuffer(), v)) }
func (w *writer) i32(v int32)  { w.u32(uint32(v)) } //nolint:gosec // the format's own
func (w *writer) u64(v int) {
	w.bytes(binary.LittleEndian.AppendUint64(w.w.AvailableBuffer(), uint64(v))) //nolint:gosec // a size
}

// head writes what comes before the sections.
func (w *writer) head(s *Shape, tokens []int32) {
	w.u32(fileMagic)
	w.u32(s.Version)
	if s.Tagged {
		w.u32(uint32(len(tokens) + tagWords)) //nolint:gosec // checked
		w.i32(-1)
		w.i32(1)
		w.i32(int32(len(tokens))) //nolint:gosec // checked
	} else {
		w.u32(uint32(len(tokens))) //nolint:gosec // checked
	}
	for _, t := range tokens {
		w.i32(t)
	}
	if s.Tagged {
		w.i32(0)
	}
}

// A stripe writes the same bytes of each page's payload, in the order of their
// cells: so many from an offset on.
type stripe func(offset, n int)

// section writes a section whose rows stripe writes.
func (w *writer) section(s *SectionShape, pageTokens int, pages span, stripe stripe) {
	w.u32(uint32(s.Streams)) //nolint:gosec // small
	for stream := range s.Streams {
		if stream != s.Stream {
			w.u32(0)
			continue
		}
		cells := pages.count * pageTokens
		w.u32(uint32(cells)) //nolint:gosec // checked
		for i := range cells {
			token := (i + pages.turn*pageTokens) % cells
			w.i32(int32(pages.first*pageTokens + token)) //nolint:gosec // checked
			w.u32(1)
			w.i32(s.Sequence)
		}
		w.rows(s, pageTokens, stripe)
	}
}

func (w *writer) rows(s *SectionShape, pageTokens int, stripe stripe) {
	transposed := uint32(0)
	if s.Transposed {
		transposed = 1
	}
	w.u32(transposed)
	w.u32(uint32(len(s.Keys))) //nolint:gosec // small
	offset := 0
	next := func(n int) {
		stripe(offset, n)
		offset += n
	}
	for _, r := range s.Keys {
		w.i32(r.Type)
		w.u64(r.Bytes)
		next(r.Bytes * pageTokens)
	}
	for _, r := range s.Values {
		w.i32(r.Type)
		if !s.Transposed {
			w.u64(r.Bytes)
			next(r.Bytes * pageTokens)
			continue
		}
		element := 0
		if r.Elements > 0 {
			element = r.Bytes / r.Elements
		}
		w.u32(uint32(element))
		w.u32(uint32(r.Elements)) //nolint:gosec // small
		for range r.Elements {
			next(element * pageTokens)
		}
	}
}
