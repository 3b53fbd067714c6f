package worker

import (
	"context"
	"errors"
	"fmt"
	"os"

	"ollamoon/connector"
	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/slotfile"
	"ollamoon/store"
)

// ErrSections is wrapped when the sections of an engine's cache cannot be
// shared.
var ErrSections = errors.New("worker: a cache that cannot be shared")

// A sharer shares the cache of an engine: one section, or layers with the whole
// context and layers with a sliding window.
type sharer struct {
	*Sharing
	pageTokens int
	keys       prefix.Config
	cache      *connector.Sections
	parts      []connector.Part // of cache, a section each
	estimates  *estimates
	inflight   *inflight
	tenant     string
	tenants    tenants
}

// newSharer returns a sharer; pages of what is common, unless that is nil, it has
// in common with others.
func newSharer(s *Sharing, common *prefix.Common) (*sharer, error) {
	kinds := []page.Section{page.Full, page.Sliding}
	if len(s.Shape.Sections) > len(kinds) {
		return nil, fmt.Errorf("%w: it has %d sections", ErrSections, len(s.Shape.Sections))
	}
	pageTokens := s.Namespace.PageTokens
	if err := CheckPageTokens(pageTokens); err != nil {
		return nil, err
	}
	if s.Window > 0 && s.Window < pageTokens {
		return nil, fmt.Errorf("%w: its sliding window of %d tokens is shorter than a page of %d; choose pages of no more tokens", ErrSections, s.Window, pageTokens)
	}
	if s.Window > 0 && s.Exact {
		return nil, fmt.Errorf("%w: exact answers are wanted, and with a sliding window the last bits depend on where a batch began", ErrSections)
	}
	share := &sharer{
		Sharing: s, pageTokens: pageTokens,
		keys:      prefix.Config{Model: s.Namespace.Model(), PageTokens: pageTokens, Common: common},
		estimates: &estimates{}, inflight: &inflight{},
	}
	timed := timedStore{s.Store}
	for i := range s.Shape.Sections {
		c, err := connector.New(timed, connector.Config{
			Role: s.Role, Keys: share.keys, Section: kinds[i],
			PageBytes: s.Shape.Sections[i].PageBytes(pageTokens), Sealer: s.Sealer,
		})
		if err != nil {
			return nil, err
		}
		part := connector.Part{Connector: c}
		if kinds[i] == page.Sliding && s.Window > 0 {
			// All of the ring, for the same bits as a slot that went round it.
			part.Last = max(share.needed(), s.Ring)
		}
		share.parts = append(share.parts, part)
	}
	var err error
	if share.cache, err = connector.NewSections(share.parts...); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of slot files: %w", err)
	}
	return share, nil
}

// payloadBytes is the size of a section's page without its seal.
func (s *sharer) payloadBytes(section int) int {
	return s.Shape.Sections[section].PageBytes(s.pageTokens)
}

// key is the key of a prompt's page.
func (s *sharer) key(tokens []int32, page int) string {
	pages, err := s.keys.Pages(tokens[:(page+1)*s.pageTokens])
	if err != nil {
		return "" // the configuration was checked by newSharer
	}
	return pages[page].Key
}

// buffers are memory of the store's for pages.
type buffers struct {
	held     []store.Buffer
	sections [][][]byte // objects' bytes; nil for a page without a buffer
}

// allocate returns memory for those pages of each section that wanted tells,
// which has an element for each page.
func (s *sharer) allocate(wanted [][]bool) (*buffers, error) {
	b := &buffers{}
	for i, pages := range wanted {
		objects := make([][]byte, len(pages))
		for page, yes := range pages {
			if !yes {
				continue
			}
			buffer, err := s.Store.Alloc(s.parts[i].ObjectBytes())
			if err != nil {
				b.free()
				return nil, fmt.Errorf("allocating pages: %w", err)
			}
			b.held = append(b.held, buffer)
			objects[page] = buffer.Bytes()
		}
		b.sections = append(b.sections, objects)
	}
	return b, nil
}

// free gives the memory back. It may be called again.
func (b *buffers) free() {
	if b == nil {
		return
	}
	for _, held := range b.held {
		held.Free()
	}
	b.held = nil
}

// needed is how many pages an engine with a sliding window needs at the end of a
// prefix: it wants a position from before the window.
func (s *sharer) needed() int { return (s.Window+s.pageTokens-1)/s.pageTokens + 1 }

// turn puts pages where a slot that computed them has their cells. Of the pages
// that have gone round, those before the oldest are enough where they are more than
// the window: the cells of the others are the next to be used, and stay free, since
// an engine goes on behind what it restores.
func (s *sharer) turn(pages *slotfile.Span) {
	pages.Turn = (s.Ring - pages.First%s.Ring) % s.Ring
	if pages.Turn > 0 && pages.Count-pages.Turn >= s.needed() {
		pages.First, pages.Count, pages.Turn = pages.First+pages.Turn, pages.Count-pages.Turn, 0
	}
}

// spans returns which pages of each section the slot file of a prefix has.
func (s *sharer) spans(pages int) []slotfile.Span {
	sections := make([]slotfile.Span, len(s.parts))
	for i, first := range s.cache.First(pages) {
		sections[i] = slotfile.Span{First: first, Count: pages - first}
		if s.parts[i].Last > 0 && s.Ring > 0 {
			s.turn(&sections[i])
		}
	}
	return sections
}

// within is a context for a call to the store.
func (s *sharer) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.Deadline, errDeadline)
}

var errDeadline = errors.New("worker: the store took longer than its deadline")
