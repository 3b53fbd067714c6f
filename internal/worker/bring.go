package worker

import (
	"fmt"
	"os"
	"time"

	"ollamoon/slotfile"
	"ollamoon/store"
)

const (
	// windowBytes of pages, about, are read together; as many are written at the same
	// time.
	windowBytes = 24 << 20
	// minWindow is how many pages are read together however large they are, so that
	// several connections have something to do.
	minWindow = 4
)

// window is how many pages are read together.
func (s *sharer) window() int { return max(minWindow, windowBytes/s.parts[0].ObjectBytes()) }

// A bringing makes a slot file of pages of a store as they come: it is the Sink of
// one load. Its owner calls done when they have come, and close.
type bringing struct {
	*sharer
	files  *slotFiles
	tokens []int32 // of the prompt
	shape  slotfile.Shape
	worth  func(pages int) bool

	began time.Time // reading pages
	to    *slotFile // nil before there is a file
	file  *os.File  // nil when nothing more is written to it
	maker *slotfile.Maker
	spans []slotfile.Span
	held  []store.Buffer
}

// Begin begins the file, or begins it again.
func (b *bringing) Begin(pages int) (err error) {
	if !b.worth(pages) {
		return errNotWorth
	}
	if b.file == nil {
		if b.to, err = b.files.reserve(pages*b.pageTokens, b.estimates.token()); err != nil {
			return err
		}
		if b.file, err = os.OpenFile(b.to.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err != nil {
			return fmt.Errorf("making a slot file: %w", err)
		}
	}
	b.began = time.Now()
	if err := b.file.Truncate(0); err != nil {
		return fmt.Errorf("making a slot file: %w", err)
	}
	b.spans = b.sharer.spans(pages)
	b.maker, err = b.shape.Make(b.file, b.tokens[:pages*b.pageTokens], b.pageTokens, b.spans)
	return err
}

// abreast is how many pages come at the same time.
func (b *bringing) abreast() int {
	return min(b.window(), b.spans[0].First+b.spans[0].Count)
}

// Buffers returns memory of the store's for pages of a section.
func (b *bringing) Buffers(section, pages int) ([][]byte, error) {
	objects := make([][]byte, pages)
	for i := range objects {
		buffer, err := b.Store.Alloc(b.parts[section].ObjectBytes())
		if err != nil {
			return nil, fmt.Errorf("allocating pages: %w", err)
		}
		b.held = append(b.held, buffer)
		objects[i] = buffer.Bytes()
	}
	return objects, nil
}

// Take writes pages.
func (b *bringing) Take(section, first int, objects [][]byte) error {
	payloads := make([][]byte, len(objects))
	for i, object := range objects {
		payloads[i] = object[:b.payloadBytes(section)]
	}
	// A page that the file has no place for is left out.
	skip := min(len(payloads), max(0, b.spans[section].First-first))
	return b.maker.WritePages(section, first+skip, payloads[skip:])
}

// done gives the memory back and ends the file.
func (b *bringing) done() error {
	for _, held := range b.held {
		held.Free()
	}
	b.held = nil
	if b.file == nil {
		return nil
	}
	err := b.file.Close()
	b.file = nil
	b.to.written()
	if err != nil {
		return fmt.Errorf("making a slot file: %w", err)
	}
	return nil
}

// close leaves nothing behind but the file, if there is one, for discard.
func (b *bringing) close(discard func(*slotFile)) {
	_ = b.done() // the file goes
	if b.to != nil {
		discard(b.to)
	}
}
