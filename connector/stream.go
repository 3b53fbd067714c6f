package connector

import (
	"context"
	"errors"
	"fmt"

	"ollamoon/prefix"
	"ollamoon/store"
)

// A Sink takes the pages of a prefix as they come. Its methods are called one at a
// time, but for Buffers, which may be called while Take runs.
type Sink interface {
	// Begin is called before any page comes, with the length of the prefix in pages.
	// When a page could not be had it is called again with that of a shorter prefix,
	// whose pages then come anew.
	Begin(pages int) error
	// Buffers returns memory for the objects of so many pages of a section. It is in
	// use until Stream returns.
	Buffers(section, pages int) ([][]byte, error)
	// Take is called with objects of consecutive pages of a section, first being the
	// number of the first. The objects are others after it has returned.
	Take(section, first int, objects [][]byte) error
}

// Stream is Load for prefixes that need not be in memory as a whole: pages are
// read at most so many at a time, and while some are read the sink takes those
// before them. The pages of a section come in order, one section after the other.
//
// The match is of pages that the sink has taken. An error of the sink ends the
// load and is returned.
func (s *Sections) Stream(ctx context.Context, tokens []int32, most, window int, sink Sink) (Match, error) {
	pages, keys, there, err := s.lookup(ctx, tokens, most)
	if err != nil || len(pages) == 0 {
		return Match{}, err
	}
	match := Match{Pages: s.longest(there, len(pages))}
	if match.Pages < len(pages) {
		match.Stopped = fmt.Errorf("page %d: %w", match.Pages, store.ErrNotFound)
	}
	for match.Pages > 0 {
		if err := sink.Begin(match.Pages); err != nil {
			return Match{}, fmt.Errorf("loading %d pages: %w", match.Pages, err)
		}
		failed, err := s.stream(ctx, pages[:match.Pages], keys, there, window, sink)
		if err != nil {
			return Match{}, fmt.Errorf("loading %d pages: %w", match.Pages, err)
		}
		if failed == nil {
			break
		}
		match = Match{Pages: s.longest(there, match.Pages), Stopped: failed}
		if ctx.Err() != nil {
			match.Pages = 0 // nothing more will come
		}
	}
	match.Tokens = match.Pages * s.parts[0].config.Keys.PageTokens
	s.loads.loaded(len(pages), match.Pages, s.bytes(match.Pages))
	return match, nil
}

// stream reads the pages of a prefix. It returns why the first page that could
// not be had failed, and notes in there which did.
func (s *Sections) stream(ctx context.Context, pages []prefix.Page, keys [][]string, there [][]bool, window int, sink Sink) (failed, err error) {
	for i, p := range s.parts {
		first := p.first(len(pages))
		w := windows{part: p, section: i, pages: pages[first:], keys: keys[i][first:len(pages)], first: first, size: max(1, window), sink: sink}
		errs, err := w.read(ctx)
		if err != nil {
			return nil, err
		}
		if at := firstError(errs); at < len(errs) {
			for page, failure := range errs {
				there[i][first+page] = failure == nil
			}
			return fmt.Errorf("page %d: %w", first+at, errs[at]), nil
		}
	}
	return nil, nil
}

// windows are the pages of a section, some at a time.
type windows struct {
	part    Part
	section int
	pages   []prefix.Page
	keys    []string
	first   int // the number of pages[0]
	size    int
	sink    Sink
	buffers [2][][]byte // of the window that is read, and of the one that is taken
}

// read reads pages until one fails, and returns what failed for each of those that
// it has tried to read.
func (w *windows) read(ctx context.Context) (failed []error, err error) {
	taken := make(chan error, 1)
	taken <- nil
	for at, turn := 0, 0; at < len(w.pages); at, turn = at+w.size, 1-turn {
		end := min(at+w.size, len(w.pages))
		into, err := w.into(turn, end-at)
		if err != nil {
			return nil, errors.Join(err, <-taken)
		}
		failed = append(failed, w.part.load(ctx, w.pages[at:end], w.keys[at:end], into)...)
		if err := <-taken; err != nil {
			return nil, err
		}
		if firstError(failed) < len(failed) {
			return failed, nil
		}
		go func() { taken <- w.sink.Take(w.section, w.first+at, into) }()
	}
	return failed, <-taken
}

// into returns buffers for pages, which nobody uses any more.
func (w *windows) into(turn, pages int) ([][]byte, error) {
	if w.buffers[turn] == nil {
		b, err := w.sink.Buffers(w.section, pages)
		if err != nil {
			return nil, err
		}
		if len(b) != pages {
			return nil, fmt.Errorf("%w: %d buffers for %d pages", ErrBuffer, len(b), pages)
		}
		for i := range b {
			if len(b[i]) != w.part.ObjectBytes() {
				return nil, w.part.bufferError(i, b[i])
			}
		}
		w.buffers[turn] = b
	}
	return w.buffers[turn][:pages], nil
}
