package slotfile

import (
	"fmt"
	"io"
)

// A run is a stretch of cells whose positions are consecutive and fall into one
// page.
type run struct {
	cell, token, count int // first cell, first token of the page, how many
}

// runs returns the runs of a page, in the file's order, or nil when a token of
// the page has no cell or more than one.
func (s *Section) runs(page, pageTokens int) []run {
	first := page * pageTokens
	seen := make([]bool, pageTokens)
	found := 0
	var runs []run
	for cell, position := range s.Positions {
		token := int(position) - first
		if token < 0 || token >= pageTokens {
			continue
		}
		if seen[token] {
			return nil
		}
		seen[token] = true
		found++
		if n := len(runs); n > 0 && runs[n-1].cell+runs[n-1].count == cell && runs[n-1].token+runs[n-1].count == token {
			runs[n-1].count++
			continue
		}
		runs = append(runs, run{cell: cell, token: token, count: 1})
	}
	if found != pageTokens {
		return nil
	}
	return runs
}

// HasPage reports whether every token of a page has exactly one cell.
func (s *Section) HasPage(page, pageTokens int) bool {
	return s.runs(page, pageTokens) != nil
}

// ReadPage copies the rows of a page, counted from 0, into payload, which has
// Shape.PageBytes bytes. An error wraps ErrPage when the page is not there, and
// otherwise is the reader's.
func (s *Section) ReadPage(payload []byte, page, pageTokens int) error {
	if want := s.Shape.PageBytes(pageTokens); len(payload) != want {
		return fmt.Errorf("%w: a payload of %d bytes for a page of %d", ErrPage, len(payload), want)
	}
	runs := s.runs(page, pageTokens)
	if runs == nil {
		return fmt.Errorf("%w: page %d is not in the file", ErrPage, page)
	}
	rest := payload
	take := func(n int) []byte {
		head := rest[:n]
		rest = rest[n:]
		return head
	}
	for layer, r := range s.Shape.Keys {
		if err := s.readRows(take(r.Bytes*pageTokens), s.keys[layer], r.Bytes, runs); err != nil {
			return err
		}
	}
	for layer, r := range s.Shape.Values {
		if !s.Shape.Transposed {
			if err := s.readRows(take(r.Bytes*pageTokens), s.values[layer], r.Bytes, runs); err != nil {
				return err
			}
			continue
		}
		if r.Elements == 0 {
			continue
		}
		element := r.Bytes / r.Elements
		for i := range r.Elements {
			start := s.values[layer] + int64(i)*int64(len(s.Positions))*int64(element)
			if err := s.readRows(take(element*pageTokens), start, element, runs); err != nil {
				return err
			}
		}
	}
	return nil
}

// readRows copies runs of rows, which start at the given place in the file, to
// where their tokens belong.
func (s *Section) readRows(dst []byte, start int64, rowBytes int, runs []run) error {
	for _, r := range runs {
		part := dst[r.token*rowBytes : (r.token+r.count)*rowBytes]
		if n, err := s.at.ReadAt(part, start+int64(r.cell)*int64(rowBytes)); n < len(part) {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("reading rows of a slot file: %w", err)
		}
	}
	return nil
}
