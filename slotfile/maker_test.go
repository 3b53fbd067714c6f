package slotfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func inFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "made")) //nolint:gosec // of this test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A file made of pages that come later, in any order and number, is the one that
// is written of all pages at once.
func TestMakeEqualsWrite(t *testing.T) {
	for name, shape := range shapes() {
		_, tokens, pages := made(t, shape)
		for turn := range 4 {
			pages[0].Turn = turn
			var want bytes.Buffer
			if err := shape.Write(&want, tokens, pageTokens, pages); err != nil {
				t.Fatal(err)
			}
			for window := 1; window <= 3; window++ {
				f := inFile(t)
				spans := make([]Span, len(pages))
				for i, p := range pages {
					spans[i] = Span{First: p.First, Count: len(p.Payloads), Turn: p.Turn}
				}
				m, err := shape.Make(f, tokens, pageTokens, spans)
				if err != nil {
					t.Fatal(err)
				}
				for i, p := range pages {
					for at := (len(p.Payloads) - 1) / window * window; at >= 0; at -= window { // the last first
						some := p.Payloads[at:min(at+window, len(p.Payloads))]
						if err := m.WritePages(i, p.First+at, some); err != nil {
							t.Fatal(err)
						}
					}
				}
				if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want.Bytes()) {
					t.Errorf("%s, turned by %d, %d pages at a time: %d bytes, other than the %d of Write; %v", name, turn, window, len(got), want.Len(), err)
				}
			}
		}
	}
}

// Stripes large enough to be written from where they are.
func TestMakeOfLargeStripes(t *testing.T) {
	shape := shapes()["plain"]
	shape.Sections[0].Keys = []Rows{{Type: 1, Bytes: largeBytes / pageTokens}, {Type: 1, Bytes: 4}}
	shape.Sections[0].Values = shape.Sections[0].Keys
	want, tokens, pages := made(t, shape)
	f := inFile(t)
	m, err := shape.Make(f, tokens, pageTokens, []Span{{Count: 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{2, 0, 1} {
		if err := m.WritePages(0, at, pages[0].Payloads[at:at+1]); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, other than the %d of Write; %v", len(got), len(want), err)
	}
}

func TestMakeRefuses(t *testing.T) {
	shape := shapes()["plain"]
	_, tokens, pages := made(t, shape)
	f := inFile(t)
	for name, spans := range map[string][]Span{
		"no section":    {},
		"too few pages": {{Count: 2}},
		"a turn":        {{Count: 3, Turn: 4}},
		"a late first":  {{First: 1, Count: 3}},
	} {
		if _, err := shape.Make(f, tokens, pageTokens, spans); !errors.Is(err, ErrPage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := shape.Make(f, tokens[1:], pageTokens, []Span{{Count: 3}}); !errors.Is(err, ErrPage) {
		t.Errorf("a page that is not whole: %v", err)
	}
	m, err := shape.Make(f, tokens, pageTokens, []Span{{Count: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		refused(m.WritePages(1, 0, pages[0].Payloads)), refused(m.WritePages(0, 1, pages[0].Payloads)),
		refused(m.WritePages(0, -1, pages[0].Payloads)), refused(m.WritePages(0, 0, [][]byte{{1}})),
	); err != nil {
		t.Error(err)
	}
	closed := inFile(t)
	_ = closed.Close()
	if _, err := shape.Make(closed, tokens, pageTokens, []Span{{Count: 3}}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a file that is closed: %v", err)
	}
}

var errNotRefused = errors.New("not refused")

func refused(err error) error {
	if errors.Is(err, ErrPage) {
		return nil
	}
	return errors.Join(errNotRefused, err)
}
