package slotfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

const (
	fileMagic   = 0x67677371 // "ggsq"
	fileVersion = 2

	// Bounds on what a file may claim: well past any model, and small enough that
	// a false claim costs little.
	maxSections = 1 << 3
	maxStreams  = 1 << 10
	maxLayers   = 1 << 12
	maxRowBytes = 1 << 24

	cellBytes = 12 // position, count of sequences, one sequence
)

// A File is a parsed slot file: where the rows of each token are.
type File struct {
	Shape    Shape
	Tokens   []int32
	Sections []Section
}

// A Section is one section of a parsed file.
type Section struct {
	Shape SectionShape
	// Positions has the token position of each cell, in the file's order.
	Positions []int32

	at           io.ReaderAt
	keys, values []int64 // where each layer's rows start
}

// Parse finds out where everything is in a slot file of the given size. It reads
// headers and cells only; the reader must stay open as long as pages are read.
//
// maxTokens bounds the tokens, and with them the cells, that a file may have: the
// size of the engine's context.
func Parse(at io.ReaderAt, size int64, maxTokens int) (*File, error) {
	p := parser{at: at, size: size, maxTokens: maxTokens}
	f := &File{}
	if magic := p.u32(); p.err == nil && magic != fileMagic {
		return nil, fmt.Errorf("%w: it starts with %#x, a slot file with %#x", ErrFormat, magic, uint32(fileMagic))
	}
	if f.Shape.Version = p.u32(); p.err == nil && f.Shape.Version != fileVersion {
		return nil, fmt.Errorf("%w: version %d, known is %d", ErrUnsupported, f.Shape.Version, fileVersion)
	}
	f.Tokens, f.Shape.Tagged = p.tokens()
	for p.err == nil && p.offset < p.size {
		if len(f.Sections) == maxSections {
			p.fail(ErrUnsupported, "more than %d sections", maxSections)
			break
		}
		f.Sections = append(f.Sections, p.section())
	}
	if p.err != nil {
		return nil, fmt.Errorf("%w (at byte %d of %d)", p.err, p.offset, size)
	}
	if len(f.Sections) == 0 {
		return nil, fmt.Errorf("%w: no cache follows the tokens", ErrFormat)
	}
	for _, s := range f.Sections {
		f.Shape.Sections = append(f.Shape.Sections, s.Shape)
	}
	return f, nil
}

// parser reads forward; its first error stays.
type parser struct {
	at           io.ReaderAt
	size, offset int64
	maxTokens    int
	err          error
}

func (p *parser) fail(sentinel error, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%w: "+format, append([]any{sentinel}, args...)...)
	}
}

// take returns the next n bytes.
func (p *parser) take(n int) []byte {
	b := make([]byte, n)
	if p.err != nil {
		return b
	}
	if int64(n) > p.size-p.offset {
		p.fail(ErrFormat, "it ends too early")
		return b
	}
	if _, err := p.at.ReadAt(b, p.offset); err != nil && !errors.Is(err, io.EOF) {
		p.err = fmt.Errorf("reading a slot file: %w", err)
	}
	p.offset += int64(n)
	return b
}

func (p *parser) u32() uint32 { return binary.LittleEndian.Uint32(p.take(4)) }
func (p *parser) i32() int32  { return int32(p.u32()) } //nolint:gosec // the format's own

// skip passes over rows and returns where they start.
func (p *parser) skip(count, rowBytes int) int64 {
	start := p.offset
	n := int64(count) * int64(rowBytes)
	if p.err == nil && n > p.size-p.offset {
		p.fail(ErrFormat, "it ends within rows")
	}
	if p.err == nil {
		p.offset += n
	}
	return start
}

// count reads a u32 that may be at most limit.
func (p *parser) count(what string, limit int) int {
	n := p.u32()
	if p.err == nil && uint64(n) > uint64(limit) { //nolint:gosec // limits are positive
		p.fail(ErrFormat, "%d %s, at most %d can be", n, what, limit)
	}
	if p.err != nil {
		return 0
	}
	return int(n)
}

// tagWords is what the newer form of tokens adds: -1, 1, their count, and the
// count of media.
const tagWords = 4

func (p *parser) tokens() ([]int32, bool) {
	n := p.count("tokens", p.maxTokens+tagWords)
	data := p.take(4 * n)
	if p.err != nil {
		return nil, false
	}
	words := make([]int32, n)
	for i := range words {
		words[i] = int32(binary.LittleEndian.Uint32(data[4*i:])) //nolint:gosec // the format's own
	}
	if n == 0 || words[0] != -1 {
		return words, false
	}
	switch {
	case n < tagWords || words[1] != 1:
		p.fail(ErrUnsupported, "tokens in an unknown form")
	case int64(words[2]) != int64(n-tagWords):
		if words[2] >= 0 && int(words[2]) < n-tagWords {
			p.fail(ErrUnsupported, "media in the prompt")
		} else {
			p.fail(ErrFormat, "%d tokens named in %d words", words[2], n)
		}
	case words[n-1] != 0:
		p.fail(ErrUnsupported, "media in the prompt")
	}
	if p.err != nil {
		return nil, false
	}
	return words[3 : n-1], true
}

func (p *parser) section() Section {
	s := Section{at: p.at}
	s.Shape.Streams = p.count("streams", maxStreams)
	if p.err == nil && s.Shape.Streams == 0 {
		p.fail(ErrFormat, "a section without streams")
	}
	for i := 0; i < s.Shape.Streams && p.err == nil; i++ {
		cells := p.count("cells", p.maxTokens)
		if cells == 0 {
			continue
		}
		if s.Positions != nil {
			p.fail(ErrUnsupported, "cells in several streams")
			break
		}
		s.Shape.Stream = i
		p.cells(&s, cells)
		p.rows(&s, cells)
	}
	if p.err == nil && s.Positions == nil {
		p.fail(ErrFormat, "a section without cells")
	}
	return s
}

func (p *parser) cells(s *Section, n int) {
	data := p.take(n * cellBytes)
	if p.err != nil {
		return
	}
	s.Positions = make([]int32, n)
	s.Shape.Sequence = int32(binary.LittleEndian.Uint32(data[8:])) //nolint:gosec // the format's own
	for i := range s.Positions {
		cell := data[i*cellBytes:]
		if sequences := binary.LittleEndian.Uint32(cell[4:]); sequences != 1 {
			p.fail(ErrUnsupported, "a cell of %d sequences, or with a position of several dimensions", sequences)
			return
		}
		s.Positions[i] = int32(binary.LittleEndian.Uint32(cell)) //nolint:gosec // the format's own
	}
}

func (p *parser) rows(s *Section, cells int) {
	transposed := p.u32()
	if transposed > 1 {
		p.fail(ErrUnsupported, "not a key-value cache of a known form (recurrent state?)")
	}
	s.Shape.Transposed = transposed == 1
	layers := p.count("layers", maxLayers)
	for range layers {
		r := Rows{Type: p.i32(), Bytes: p.rowBytes()}
		s.keys = append(s.keys, p.skip(cells, r.Bytes))
		s.Shape.Keys = append(s.Shape.Keys, r)
	}
	for range layers {
		r := Rows{Type: p.i32()}
		if s.Shape.Transposed {
			element := p.count("bytes an element", 64)
			r.Elements = p.count("elements a row", maxRowBytes)
			r.Bytes = element * r.Elements
		} else {
			r.Bytes = p.rowBytes()
		}
		s.values = append(s.values, p.skip(cells, r.Bytes))
		s.Shape.Values = append(s.Shape.Values, r)
		if p.err != nil {
			return
		}
	}
}

func (p *parser) rowBytes() int {
	n := binary.LittleEndian.Uint64(p.take(8))
	if p.err == nil && (n == 0 || n > maxRowBytes) {
		p.fail(ErrFormat, "rows of %d bytes", n)
	}
	if p.err != nil {
		return 0
	}
	return int(n) //nolint:gosec // bounded above
}

// Complete reports whether the section has a cell for each position from 0 to
// n-1, in order, and no other: what it takes to publish a file's pages under
// the keys of its tokens.
func (s *Section) Complete(n int) bool {
	if len(s.Positions) != n || n > math.MaxInt32 {
		return false
	}
	for i, position := range s.Positions {
		if int(position) != i {
			return false
		}
	}
	return true
}
