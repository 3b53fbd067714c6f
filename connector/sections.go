package connector

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ollamoon/prefix"
	"ollamoon/store"
)

// A Part is one section of a cache in Sections.
type Part struct {
	*Connector
	// Last is how many pages at the end of a prefix are needed of the section;
	// 0 is all of them.
	Last int
}

// Sections shares a cache whose pages have an object a section: layers that
// attend to the whole context need all pages of a prefix, layers that attend to
// a window need those of its end only. All parts share one store and cut prompts
// alike; a cache of one section is Sections of one part.
type Sections struct {
	parts []Part
	loads counts // lookups and hits, of pages whatever their sections
}

// NewSections returns Sections of at least one part. The first part needs all
// pages.
func NewSections(parts ...Part) (*Sections, error) {
	if len(parts) == 0 || parts[0].Last != 0 {
		return nil, errors.New("connector: sections need a first part with all pages")
	}
	first := parts[0].Connector
	for _, p := range parts[1:] {
		if p.store != first.store || p.config.Keys != first.config.Keys || p.config.Role != first.config.Role || p.Last < 0 {
			return nil, errors.New("connector: sections need one store, one role and one way to cut prompts")
		}
	}
	return &Sections{parts: parts}, nil
}

// first is the first page that a part needs of a prefix of so many.
func (p Part) first(pages int) int {
	if p.Last == 0 {
		return 0
	}
	return max(0, pages-p.Last)
}

// First returns the first page of each section that a prefix of so many pages
// needs.
func (s *Sections) First(pages int) []int {
	first := make([]int, len(s.parts))
	for i, p := range s.parts {
		first[i] = p.first(pages)
	}
	return first
}

// longest returns the length of the longest prefix, of at most so many pages,
// all of whose needed pages are there: there[i][page] is about part i.
func (s *Sections) longest(there [][]bool, most int) int {
	for pages := min(most, prefix.Run(there[0])); pages > 0; pages-- {
		complete := true
		for i, p := range s.parts {
			for page := p.first(pages); page < pages && complete; page++ {
				complete = there[i][page]
			}
		}
		if complete {
			return pages
		}
	}
	return 0
}

// Load is Connector.Load for all sections: buffers is called at most once, with
// the length of the longest prefix, in pages, that the store says it has, and
// returns a list of buffers for each section, from the page that First tells.
// What could not be had shortens the prefix to one all of whose pages came.
func (s *Sections) Load(ctx context.Context, tokens []int32, most int, buffers func(pages int) ([][][]byte, error)) (Match, error) {
	pages, keys, there, err := s.lookup(ctx, tokens, most)
	if err != nil || len(pages) == 0 {
		return Match{}, err
	}
	match := Match{Pages: s.longest(there, len(pages))}
	if match.Pages < len(pages) {
		match.Stopped = fmt.Errorf("page %d: %w", match.Pages, store.ErrNotFound)
	}
	bytes := 0
	if run := match.Pages; run > 0 {
		into, err := buffers(run)
		if err != nil {
			return Match{}, fmt.Errorf("loading %d pages: %w", run, err)
		}
		if match, bytes, err = s.load(ctx, pages, keys, match, into); err != nil {
			return Match{}, err
		}
	}
	match.Tokens = match.Pages * s.parts[0].config.Keys.PageTokens
	s.loads.loaded(len(pages), match.Pages, bytes)
	return match, nil
}

// load reads the pages of a match into buffers, and returns the match that is
// left of it and the bytes of its objects.
func (s *Sections) load(ctx context.Context, pages []prefix.Page, keys [][]string, match Match, into [][][]byte) (Match, int, error) {
	run := match.Pages
	came := make([][]bool, len(s.parts))
	failed := make([][]error, len(s.parts))
	var reads sync.WaitGroup
	for i, p := range s.parts {
		first := p.first(run)
		if i >= len(into) || len(into[i]) != run-first {
			return Match{}, 0, fmt.Errorf("%w: section %s needs %d buffers", ErrBuffer, p.config.Section, run-first)
		}
		for page, b := range into[i] {
			if len(b) != p.ObjectBytes() {
				return Match{}, 0, p.bufferError(first+page, b)
			}
		}
		came[i] = make([]bool, run)
		reads.Go(func() {
			failed[i] = p.load(ctx, pages[first:run], keys[i][first:run], into[i])
			for page, err := range failed[i] {
				came[i][first+page] = err == nil
			}
		})
	}
	reads.Wait()
	// A shorter prefix needs pages of a window that were not read.
	if left := s.longest(came, run); left < run {
		match.Pages = left
		for i := range s.parts {
			if at := firstError(failed[i]); at < len(failed[i]) {
				match.Stopped = fmt.Errorf("page %d: %w", run-len(failed[i])+at, failed[i][at])
				break
			}
		}
	}
	return match, s.bytes(match.Pages), nil
}

// bytes is the size of all objects that a prefix of so many pages needs.
func (s *Sections) bytes(pages int) int {
	total := 0
	for _, p := range s.parts {
		total += (pages - p.first(pages)) * p.ObjectBytes()
	}
	return total
}

// keys returns the full pages of a prompt, at most so many, and the keys of
// their objects in each section.
func (s *Sections) keys(tokens []int32, most int) ([]prefix.Page, [][]string, error) {
	pages, first, err := s.parts[0].pages(tokens, most)
	if err != nil {
		return nil, nil, err
	}
	keys := [][]string{first}
	for _, p := range s.parts[1:] {
		of := make([]string, len(pages))
		for i := range pages {
			of[i] = p.config.Section.Key(pages[i].Key)
		}
		keys = append(keys, of)
	}
	return pages, keys, nil
}

// lookup returns the full pages of a prompt, at most so many, their objects' keys
// and which of these the store says it has.
func (s *Sections) lookup(ctx context.Context, tokens []int32, most int) (pages []prefix.Page, keys [][]string, there [][]bool, err error) {
	if role := s.parts[0].config.Role; !role.Loads() {
		return nil, nil, nil, fmt.Errorf("loading a prefix as %s: %w", role, ErrRole)
	}
	pages, keys, err = s.keys(tokens, most)
	if err == nil && len(pages) > 0 {
		there, err = s.exist(ctx, keys)
	}
	return pages, keys, there, err
}

// Stored returns how many pages, of at most so many, the longest prefix of a prompt
// has that could be loaded, as far as the store says.
func (s *Sections) Stored(ctx context.Context, tokens []int32, most int) (int, error) {
	pages, keys, err := s.keys(tokens, most)
	if err != nil || len(pages) == 0 {
		return 0, err
	}
	there, err := s.exist(ctx, keys)
	if err != nil {
		return 0, err
	}
	return s.longest(there, len(pages)), nil
}

// exist asks for the objects of all sections at once.
func (s *Sections) exist(ctx context.Context, keys [][]string) ([][]bool, error) {
	var all []string
	for _, of := range keys {
		all = append(all, of...)
	}
	present, err := s.parts[0].store.BatchExist(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("looking up %d pages: %w", len(keys[0]), err)
	}
	there := make([][]bool, len(keys))
	for i, of := range keys {
		there[i], present = present[:len(of)], present[len(of):]
	}
	return there, nil
}

// StoreComputedPrefix is that of each section: buffers[i][page] is part i's, nil
// for what the caller does not have. It returns how many pages were stored newly
// in the section of which most were.
func (s *Sections) StoreComputedPrefix(ctx context.Context, tokens []int32, buffers [][][]byte) (int, error) {
	if len(buffers) != len(s.parts) {
		return 0, fmt.Errorf("%w: of %d sections for %d", ErrBuffer, len(buffers), len(s.parts))
	}
	stored := 0
	var failures []error
	for i, p := range s.parts {
		n, err := p.StoreComputedPrefix(ctx, tokens, buffers[i])
		stored = max(stored, n)
		failures = append(failures, err)
	}
	return stored, errors.Join(failures...)
}

// Stats returns the counts so far: pages as a prompt has them, bytes and objects
// of all sections.
func (s *Sections) Stats() Stats {
	total := s.loads.get()
	for i, p := range s.parts {
		part := p.Stats()
		if i == 0 {
			total.PagesPublished = part.PagesPublished
		}
		total.BytesPublished += part.BytesPublished
		total.PagesDiscarded += part.PagesDiscarded
		total.DiscardFailures += part.DiscardFailures
		for reason, n := range part.Rejected {
			if total.Rejected == nil {
				total.Rejected = map[string]int64{}
			}
			total.Rejected[reason] += n
		}
	}
	return total
}
