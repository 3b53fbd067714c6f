package connector

import (
	"bytes"
	"errors"
	"testing"

	"ollamoon/page"
	"ollamoon/store"
)

// windowed shares a cache of two sections, of which the second needs the last
// two pages of a prefix.
func windowed(t *testing.T, s store.Store, role Role) *Sections {
	t.Helper()
	sliding := config(role)
	sliding.Section, sliding.PageBytes = page.Sliding, pageBytes/2
	both, err := NewSections(Part{Connector: connect(t, s, config(role))}, Part{Connector: connect(t, s, sliding), Last: 2})
	if err != nil {
		t.Fatal(err)
	}
	return both
}

// loaded loads a prompt and returns what came, by section.
func (s *Sections) loaded(t *testing.T, tokens []int32) (Match, [][][]byte) {
	t.Helper()
	var into [][][]byte
	match, err := s.Load(t.Context(), tokens, len(tokens)/pageTokens, func(pages int) ([][][]byte, error) {
		for i, first := range s.First(pages) {
			into = append(into, empty(s.parts[i].Connector, pages-first))
		}
		return into, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return match, into
}

func TestSectionsLoadAllPagesOfOneAndTheLastOfTheOther(t *testing.T) {
	s := newMemory(t)
	both := windowed(t, s, Mixed)
	tokens := prompt(5*pageTokens, 5*pageTokens)
	full, sliding := buffers(both.parts[0].Connector, 5), buffers(both.parts[1].Connector, 5)
	sliding[0] = nil // the caller has not seen it
	if n, err := both.StoreComputedPrefix(t.Context(), tokens, [][][]byte{full, sliding}); n != 5 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	match, got := both.loaded(t, tokens)
	if match.Pages != 5 || match.Tokens != 5*pageTokens || match.Stopped != nil {
		t.Fatalf("%+v", match)
	}
	if len(got[0]) != 5 || len(got[1]) != 2 {
		t.Fatalf("%d and %d pages", len(got[0]), len(got[1]))
	}
	for i, b := range got[0] {
		if !bytes.Equal(b[:pageBytes], full[i][:pageBytes]) {
			t.Errorf("full page %d: other bytes", i)
		}
	}
	for i, b := range got[1] {
		if !bytes.Equal(b[:pageBytes/2], sliding[3+i][:pageBytes/2]) {
			t.Errorf("sliding page %d: other bytes", 3+i)
		}
	}
	want := Stats{PagesLookedUp: 5, PagesHit: 5, PagesPublished: 5}
	stats := both.Stats()
	if stats.PagesLookedUp != want.PagesLookedUp || stats.PagesHit != want.PagesHit || stats.PagesPublished != want.PagesPublished {
		t.Errorf("%+v", stats)
	}
	if bytes := int64(5*both.parts[0].ObjectBytes() + 2*both.parts[1].ObjectBytes()); stats.BytesLoaded != bytes {
		t.Errorf("%d bytes loaded, want %d", stats.BytesLoaded, bytes)
	}
}

// A prefix ends where its window is there.
func TestSectionsOfWhichPagesAreMissing(t *testing.T) {
	for name, c := range map[string]struct {
		full, sliding []int // pages that are missing
		want          int
	}{
		"nothing":                    {nil, nil, 5},
		"a sliding page of the end":  {nil, []int{4}, 4},
		"one in the middle":          {nil, []int{3}, 3},
		"one before the window":      {nil, []int{2}, 5},
		"a full page":                {[]int{3}, nil, 3},
		"a full page and its window": {[]int{4}, []int{3}, 3},
		"the first":                  {[]int{0}, nil, 0},
		"all of the window":          {nil, []int{0, 1, 2, 3, 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			both := windowed(t, newMemory(t), Mixed)
			tokens := prompt(5*pageTokens, 5*pageTokens)
			full, sliding := buffers(both.parts[0].Connector, 5), buffers(both.parts[1].Connector, 5)
			for _, i := range c.full {
				full[i] = nil
			}
			for _, i := range c.sliding {
				sliding[i] = nil
			}
			if _, err := both.StoreComputedPrefix(t.Context(), tokens, [][][]byte{full, sliding}); err != nil {
				t.Fatal(err)
			}
			match, _ := both.loaded(t, tokens)
			if match.Pages != c.want {
				t.Errorf("%d pages, want %d", match.Pages, c.want)
			}
			if n, err := both.Stored(t.Context(), tokens, 5); n != c.want || err != nil {
				t.Errorf("%d pages are said to be stored, want %d: %v", n, c.want, err)
			}
			if stopped := match.Stopped; (c.want < 5) != errors.Is(stopped, store.ErrNotFound) {
				t.Errorf("stopped: %v", stopped)
			}
		})
	}
}

// A page that is not what it should be shortens the prefix to one all of whose
// pages came, or to none.
func TestSectionsWithABadPage(t *testing.T) {
	s := newMemory(t)
	both := windowed(t, s, Mixed)
	tokens := prompt(5*pageTokens, 5*pageTokens)
	if _, err := both.StoreComputedPrefix(t.Context(), tokens, [][][]byte{buffers(both.parts[0].Connector, 5), buffers(both.parts[1].Connector, 5)}); err != nil {
		t.Fatal(err)
	}
	_, keys, err := both.keys(tokens, 5)
	if err != nil {
		t.Fatal(err)
	}
	swap := make([]byte, both.parts[1].ObjectBytes())
	if err := errors.Join(
		s.BatchGet(t.Context(), []store.Item{{Key: keys[1][2], Bytes: swap}})[0],
		s.Discard(t.Context(), keys[1][4]),
		s.BatchPut(t.Context(), []store.Item{{Key: keys[1][4], Bytes: swap}})[0],
	); err != nil {
		t.Fatal(err)
	}
	match, _ := both.loaded(t, tokens)
	if match.Pages != 0 || !errors.Is(match.Stopped, page.ErrSeal) {
		t.Errorf("%+v, want nothing: a shorter prefix needs pages that were not read", match)
	}
	if got := both.Stats(); got.Rejected["foreign"] != 1 || got.PagesDiscarded != 1 {
		t.Errorf("%+v", got)
	}
	if match, _ := both.loaded(t, tokens); match.Pages != 4 {
		t.Errorf("%d pages afterwards, want those before the page that was discarded", match.Pages)
	}
}

func TestSectionsRefuse(t *testing.T) {
	s := newMemory(t)
	first := Part{Connector: connect(t, s, config(Mixed))}
	other := config(Mixed)
	other.Keys.Model = "other"
	for name, parts := range map[string][]Part{
		"nothing":                nil,
		"a window first":         {{Connector: first.Connector, Last: 1}},
		"another way of cutting": {first, {Connector: connect(t, s, other)}},
		"another store":          {first, {Connector: connect(t, newMemory(t), config(Mixed))}},
		"another role":           {first, {Connector: connect(t, s, config(Decode))}},
	} {
		if _, err := NewSections(parts...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	both := windowed(t, s, Mixed)
	if _, err := both.StoreComputedPrefix(t.Context(), prompt(8, 8), nil); !errors.Is(err, ErrBuffer) {
		t.Errorf("%v", err)
	}
}
