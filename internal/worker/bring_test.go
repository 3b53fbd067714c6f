package worker

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/slotfile"
	"ollamoon/store/faulty"
	"ollamoon/store/open"
)

// sharing shares a cache of two sections through a store in memory.
func sharing(t *testing.T) *sharer {
	t.Helper()
	s, err := open.Store(t.Context(), "memory:", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	rows := []slotfile.Rows{{Type: 1, Bytes: 256}}
	shared, err := newSharer(&Sharing{
		Store: s, Namespace: prefix.Namespace{PageTokens: PageTokens}, Sealer: &page.Sealer{},
		Shape: slotfile.Shape{Version: 2, Tagged: true, Sections: []slotfile.SectionShape{
			{Streams: 1, Keys: rows, Values: rows}, {Streams: 1, Keys: rows, Values: rows},
		}},
		Folder: t.TempDir(), Deadline: time.Minute, Window: 512, Ring: 4,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return shared
}

// A slot file has the pages of the store, and of a window's section those of its
// end.
func TestBringMakesASlotFile(t *testing.T) {
	s := sharing(t)
	const pages = 11
	tokens := make([]int32, pages*PageTokens)
	for i := range tokens {
		tokens[i] = rand.Int32N(1000) //nolint:gosec // any will do
	}
	all, err := s.allocate([][]bool{trues(pages), trues(pages)})
	if err != nil {
		t.Fatal(err)
	}
	defer all.free()
	for _, objects := range all.sections {
		for _, object := range objects {
			for i := range object {
				object[i] = byte(rand.Uint32()) //nolint:gosec // any will do
			}
		}
	}
	if _, err := s.cache.StoreComputedPrefix(t.Context(), tokens, all.sections); err != nil {
		t.Fatal(err)
	}
	files, err := newSlotFiles(slog.New(slog.DiscardHandler), s.Shape, nil, s.Folder)
	if err != nil {
		t.Fatal(err)
	}
	for most := 4; most <= pages; most++ {
		into := &bringing{sharer: s, files: files, tokens: tokens, shape: s.Shape, worth: func(int) bool { return true }}
		match, err := s.cache.Stream(t.Context(), tokens, most, 3, into)
		if err != nil || match.Pages != most {
			t.Fatalf("%d pages: %+v, %v", most, match, err)
		}
		if err := into.done(); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(into.to.path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := slotfile.Parse(bytes.NewReader(data), int64(len(data)), len(tokens))
		if err != nil {
			t.Fatalf("%d pages: %v", most, err)
		}
		for section, span := range s.spans(most) {
			payload := make([]byte, s.payloadBytes(section))
			for i := span.First; i < most; i++ {
				if err := file.Sections[section].ReadPage(payload, i, PageTokens); err != nil || !bytes.Equal(payload, all.sections[section][i][:len(payload)]) {
					t.Errorf("%d pages: section %d, page %d: other bytes, or %v", most, section, i, err)
				}
			}
			if cells := len(file.Sections[section].Positions); cells != span.Count*PageTokens {
				t.Errorf("%d pages: section %d has %d cells", most, section, cells)
			}
		}
		removed := ""
		into.close(func(file *slotFile) { removed = file.path })
		if removed != into.to.path || len(into.held) > 0 {
			t.Errorf("the file to remove is %q, %d buffers are left", removed, len(into.held))
		}
	}
}

// What is not worth it leaves no file.
func TestBringOfWhatIsNotWorthIt(t *testing.T) {
	s := sharing(t)
	into := &bringing{sharer: s, tokens: make([]int32, 2*PageTokens), shape: s.Shape, worth: func(int) bool { return false }}
	if err := into.Begin(2); !errors.Is(err, errNotWorth) {
		t.Error(err)
	}
	into.close(func(file *slotFile) { t.Errorf("%s is to be removed", file.path) })
	if left, err := os.ReadDir(s.Folder); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func trues(n int) []bool {
	all := make([]bool, n)
	for i := range all {
		all[i] = true
	}
	return all
}

// A load that has brought nothing by the deadline teaches how slow loading is.
func TestALoadThatIsCutShortIsLearntFrom(t *testing.T) {
	s := sharing(t)
	hanging := faulty.New(s.Store)
	given := *s.Sharing
	given.Store, given.Deadline = hanging, 50*time.Millisecond
	s, err := newSharer(&given, nil)
	if err != nil {
		t.Fatal(err)
	}
	const pages = 4
	tokens := make([]int32, pages*PageTokens+1)
	all, err := s.allocate([][]bool{trues(pages), trues(pages)})
	if err != nil {
		t.Fatal(err)
	}
	defer all.free()
	if _, err := s.cache.StoreComputedPrefix(t.Context(), tokens, all.sections); err != nil {
		t.Fatal(err)
	}
	files, err := newSlotFiles(slog.New(slog.DiscardHandler), s.Shape, nil, s.Folder)
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{}
	w.files.Store(files)
	s.estimates.computed(time.Second, 1000)
	hanging.Add(faulty.Fault{Ops: faulty.Get, Hang: true})
	load := func() {
		t.Helper()
		var took breakdown
		if got, err := w.load(t.Context(), s, &slot{}, tokens, &took); got != 0 || err != nil && !down(err) {
			t.Errorf("loaded %d tokens, %v", got, err)
		}
	}
	load()
	if rate, _ := s.estimates.rates(); rate < given.Deadline/2/pages {
		t.Errorf("loading a page is expected to take %v", rate)
	}
	if s.estimates.worth(1, 1) {
		t.Error("loading a page for a token is expected to pay")
	}
}
