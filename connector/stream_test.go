package connector

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"ollamoon/page"
	"ollamoon/store"
)

// A collector is a Sink that copies what it takes.
type collector struct {
	t      *testing.T
	of     *Sections
	begun  []int // lengths
	taken  [][][]byte
	first  []int
	failAt int // the Take that fails, from 1
	takes  int
}

var errSink = errors.New("the sink fails")

func (c *collector) Begin(pages int) error {
	c.begun = append(c.begun, pages)
	c.first, c.taken = c.of.First(pages), make([][][]byte, len(c.of.parts))
	return nil
}

func (c *collector) Buffers(section, pages int) ([][]byte, error) {
	return empty(c.of.parts[section].Connector, pages), nil
}

func (c *collector) Take(section, first int, objects [][]byte) error {
	if want := c.first[section] + len(c.taken[section]); first != want {
		c.t.Errorf("section %d: page %d comes, not %d", section, first, want)
	}
	if c.takes++; c.takes == c.failAt {
		return errSink
	}
	for _, object := range objects {
		c.taken[section] = append(c.taken[section], bytes.Clone(object))
		clear(object)
	}
	return nil
}

// streamed publishes a prompt of five pages in both sections and returns its
// tokens and what was published.
func streamed(t *testing.T, both *Sections) ([]int32, [][][]byte) {
	t.Helper()
	tokens := prompt(5*pageTokens, 5*pageTokens)
	pages := [][][]byte{buffers(both.parts[0].Connector, 5), buffers(both.parts[1].Connector, 5)}
	if _, err := both.StoreComputedPrefix(t.Context(), tokens, pages); err != nil {
		t.Fatal(err)
	}
	return tokens, pages
}

func TestStreamBringsWhatLoadBrings(t *testing.T) {
	for window := range 7 {
		both := windowed(t, newMemory(t), Mixed)
		tokens, pages := streamed(t, both)
		c := &collector{t: t, of: both}
		match, err := both.Stream(t.Context(), tokens, 5, window, c)
		if err != nil || match.Pages != 5 || match.Tokens != 5*pageTokens || match.Stopped != nil || len(c.begun) != 1 {
			t.Fatalf("%d at a time: %+v, %v, begun %v", window, match, err, c.begun)
		}
		for i, first := range both.First(5) {
			n := both.parts[i].config.PageBytes
			if len(c.taken[i]) != 5-first {
				t.Fatalf("%d at a time: %d pages of section %d", window, len(c.taken[i]), i)
			}
			for j, object := range c.taken[i] {
				if !bytes.Equal(object[:n], pages[i][first+j][:n]) {
					t.Errorf("%d at a time: section %d, page %d: other bytes", window, i, first+j)
				}
			}
		}
		stats := both.Stats()
		if want := int64(5*both.parts[0].ObjectBytes() + 2*both.parts[1].ObjectBytes()); stats.PagesLookedUp != 5 || stats.PagesHit != 5 || stats.BytesLoaded != want {
			t.Errorf("%d at a time: %+v, want %d bytes", window, stats, want)
		}
	}
}

// What could not be had shortens the prefix to the longest that the store still
// says it has, all of which is read anew.
func TestStreamOfABadPage(t *testing.T) {
	s := newMemory(t)
	both := windowed(t, s, Mixed)
	tokens, _ := streamed(t, both)
	_, keys, err := both.keys(tokens, 5)
	if err != nil {
		t.Fatal(err)
	}
	swap := make([]byte, both.parts[0].ObjectBytes())
	if err := errors.Join(
		s.BatchGet(t.Context(), []store.Item{{Key: keys[0][2], Bytes: swap}})[0],
		s.Discard(t.Context(), keys[0][3]),
		s.BatchPut(t.Context(), []store.Item{{Key: keys[0][3], Bytes: swap}})[0],
	); err != nil {
		t.Fatal(err)
	}
	c := &collector{t: t, of: both}
	match, err := both.Stream(t.Context(), tokens, 5, 2, c)
	if err != nil || match.Pages != 3 || !errors.Is(match.Stopped, page.ErrSeal) {
		t.Fatalf("%+v, %v", match, err)
	}
	if len(c.begun) != 2 || c.begun[1] != 3 || len(c.taken[0]) != 3 || len(c.taken[1]) != 2 {
		t.Errorf("begun with %v, %d and %d pages", c.begun, len(c.taken[0]), len(c.taken[1]))
	}
	if stats := both.Stats(); stats.PagesHit != 3 || stats.PagesDiscarded != 1 {
		t.Errorf("%+v", stats)
	}
}

func TestStreamEndsWithItsSink(t *testing.T) {
	both := windowed(t, newMemory(t), Mixed)
	tokens, _ := streamed(t, both)
	for failAt := 1; failAt <= 6; failAt++ { // 5 pages of one section, 2 of the other
		if _, err := both.Stream(t.Context(), tokens, 5, 1, &collector{t: t, of: both, failAt: failAt}); !errors.Is(err, errSink) {
			t.Errorf("the sink fails at %d: %v", failAt, err)
		}
	}
	if _, err := both.Stream(t.Context(), tokens, 5, 1, small{&collector{t: t, of: both}}); !errors.Is(err, ErrBuffer) {
		t.Errorf("buffers that are too small: %v", err)
	}
}

type small struct{ *collector }

func (small) Buffers(_, pages int) ([][]byte, error) { return make([][]byte, pages), nil }

func TestStreamOfNothing(t *testing.T) {
	both := windowed(t, newMemory(t), Mixed)
	c := &collector{t: t, of: both}
	match, err := both.Stream(t.Context(), prompt(5*pageTokens, 5*pageTokens), 5, 2, c)
	if err != nil || match.Pages != 0 || !errors.Is(match.Stopped, store.ErrNotFound) || c.begun != nil {
		t.Errorf("%+v, %v, begun %v", match, err, c.begun)
	}
	tokens, _ := streamed(t, both)
	ctx, cancel := context.WithCancel(t.Context())
	match, err = both.Stream(ctx, tokens, 5, 1, ending{c, cancel})
	if err != nil || match.Pages != 0 || !errors.Is(match.Stopped, context.Canceled) || len(c.begun) != 1 {
		t.Errorf("interrupted: %+v, %v, begun %v", match, err, c.begun)
	}
	if _, err := windowed(t, newMemory(t), Decode).Stream(t.Context(), tokens, 5, 1, c); err != nil {
		t.Errorf("a role that loads: %v", err)
	}
}

// ending interrupts the load with its first pages.
type ending struct {
	*collector
	end context.CancelFunc
}

func (e ending) Take(section, first int, objects [][]byte) error {
	e.end()
	return e.collector.Take(section, first, objects)
}
