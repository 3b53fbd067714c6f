package slotfile

import (
	"bufio"
	"fmt"
	"io"
)

// Span says which pages of a section a slot file has.
type Span struct {
	First int // the number of the first page
	Count int
	Turn  int // as in Pages
}

// A Maker makes a slot file of pages that come one after the other, in any
// order: the pages themselves need not be in memory all at once.
type Maker struct {
	to       io.WriterAt
	sections []placed
	scratch  []byte
}

// placed is where the pages of a section go.
type placed struct {
	span
	pageBytes int
	stripes   []stripePlace
}

// A stripePlace is the place in a file of the same bytes of each payload.
type stripePlace struct {
	at        int64 // of the first page in the file
	offset, n int   // in a payload
}

// Make begins a slot file: it writes all but the rows, which WritePages is to
// write. Tokens and spans must fit, as for Write, which makes the same file.
func (s Shape) Make(to io.WriterAt, tokens []int32, pageTokens int, spans []Span) (*Maker, error) {
	if len(spans) != len(s.Sections) {
		return nil, fmt.Errorf("%w: pages of %d sections for a cache of %d", ErrPage, len(spans), len(s.Sections))
	}
	if pageTokens <= 0 || len(tokens) == 0 || len(tokens)%pageTokens != 0 {
		return nil, fmt.Errorf("%w: %d tokens are no whole pages of %d", ErrPage, len(tokens), pageTokens)
	}
	m := &Maker{to: to}
	skipping := &skipper{to: to}
	out := &writer{to: skipping, w: bufio.NewWriterSize(skipping, largeBytes)}
	out.head(&s, tokens)
	for i, pages := range spans {
		of := span{pages.First, pages.Count, pages.Turn}
		if err := of.check(i, pageTokens, len(tokens)); err != nil {
			return nil, err
		}
		p := placed{span: of, pageBytes: s.Sections[i].PageBytes(pageTokens)}
		out.section(&s.Sections[i], pageTokens, of, func(offset, n int) {
			if out.err == nil {
				out.err = out.w.Flush()
			}
			p.stripes = append(p.stripes, stripePlace{skipping.at, offset, n})
			skipping.at += int64(n) * int64(of.count)
		})
		m.sections = append(m.sections, p)
	}
	return m, out.end()
}

// A skipper writes from a place on that can be moved.
type skipper struct {
	to io.WriterAt
	at int64
}

func (s *skipper) Write(b []byte) (int, error) {
	n, err := s.to.WriteAt(b, s.at)
	s.at += int64(n)
	return n, err
}

// WritePages writes the rows of consecutive pages of a section, of which first is
// the number of the first. When all pages of all sections have been written, the
// file is whole.
func (m *Maker) WritePages(section, first int, payloads [][]byte) error {
	if section < 0 || section >= len(m.sections) {
		return fmt.Errorf("%w: there is no section %d", ErrPage, section)
	}
	p := &m.sections[section]
	if first < p.first || first+len(payloads) > p.first+p.count {
		return fmt.Errorf("%w: section %d: pages %d to %d, of %d from %d on", ErrPage, section, first, first+len(payloads)-1, p.count, p.first)
	}
	for _, payload := range payloads {
		if len(payload) != p.pageBytes {
			return fmt.Errorf("%w: section %d: a payload of %d bytes for a page of %d", ErrPage, section, len(payload), p.pageBytes)
		}
	}
	for len(payloads) > 0 {
		// Pages that are turned to the end are apart from those before them.
		place := (first - p.first - p.turn + p.count) % p.count
		run := min(len(payloads), p.count-place)
		if err := m.write(p, place, payloads[:run]); err != nil {
			return fmt.Errorf("writing a slot file: %w", err)
		}
		first, payloads = first+run, payloads[run:]
	}
	return nil
}

// write writes pages that stand in the file from a place on.
func (m *Maker) write(p *placed, place int, payloads [][]byte) error {
	for _, s := range p.stripes {
		at := s.at + int64(place)*int64(s.n)
		if s.n < largeBytes {
			m.scratch = m.scratch[:0]
			for _, payload := range payloads {
				m.scratch = append(m.scratch, payload[s.offset:s.offset+s.n]...)
			}
			if _, err := m.to.WriteAt(m.scratch, at); err != nil {
				return err
			}
			continue
		}
		for i, payload := range payloads {
			if _, err := m.to.WriteAt(payload[s.offset:s.offset+s.n], at+int64(i)*int64(s.n)); err != nil {
				return err
			}
		}
	}
	return nil
}
