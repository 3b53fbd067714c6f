package worker

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/slotfile"
)

// rooms is how much folders are said to have.
type rooms map[string]int64

func (r rooms) bytes(folder string) int64 { return r[folder] }

// smallShape has 100 bytes a token.
var smallShape = slotfile.Shape{Sections: []slotfile.SectionShape{{
	Streams: 1, Keys: []slotfile.Rows{{Bytes: 60}}, Values: []slotfile.Rows{{Bytes: 40}},
}}}

func TestSlotFiles(t *testing.T) {
	memory, disk := filepath.Join(t.TempDir(), "memory"), filepath.Join(t.TempDir(), "disk")
	left := rooms{memory: 400_000, disk: math.MaxInt64}
	s, err := newSlotFiles(slog.New(slog.NewTextHandler(t.Output(), nil)), smallShape, left.bytes, memory, "", disk)
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(tokens int, compute time.Duration, want string) *slotFile {
		t.Helper()
		f, err := s.reserve(tokens, compute)
		if want == "" {
			if !errors.Is(err, errNoRoom) {
				t.Fatalf("%+v, %v", f, err)
			}
			return nil
		}
		if err != nil || filepath.Dir(f.path) != want {
			t.Fatalf("%+v, %v, want one in %s", f, err, want)
		}
		return f
	}
	write := func(f *slotFile) {
		t.Helper()
		// As an engine does: by its name in its own folder.
		if err := os.WriteFile(filepath.Join(memory, f.name), []byte("rows"), 0o600); err != nil {
			t.Fatal(err)
		}
		f.written()
	}
	if n := s.size(1000); n < 100_000 || n > 200_000+64<<10 {
		t.Errorf("a file of 1000 tokens takes %d bytes", n)
	}
	one := reserve(1000, 0, memory)
	two := reserve(1000, 0, memory)
	// What is about to be written is taken.
	three := reserve(1000, 0, disk)
	write(one)
	write(three)
	if data, err := os.ReadFile(three.path); err != nil || string(data) != "rows" {
		t.Errorf("through the link %q was written, %v", data, err)
	}
	four := reserve(1000, 0, memory) // the file system counts it now
	for _, f := range []*slotFile{one, two, three, four} {
		f.remove()
		f.remove()
	}
	for _, folder := range []string{memory, disk} {
		if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
			t.Errorf("left in %s: %v, %v", folder, entries, err)
		}
	}
	// A disk on which a token takes longer than it is computed in is not used, until
	// it is tried again.
	left[memory] = 0
	reserve(1000, time.Millisecond, disk).moved(2 * time.Second)
	for range retryAfter {
		reserve(1000, time.Millisecond, "")
	}
	reserve(1000, time.Millisecond, disk).moved(time.Second / 2)
	reserve(1000, time.Millisecond, disk)
	left[disk] = 0
	reserve(1000, time.Millisecond, "")
	if n := s.refusals(); n != retryAfter+1 {
		t.Errorf("%d refusals were counted, want %d", n, retryAfter+1)
	}
	if _, err := s.reserve(1, 0); err == nil || !strings.Contains(err.Error(), memory) || !strings.Contains(err.Error(), disk) {
		t.Errorf("the reason is %v", err)
	}
}

func TestNoRoomIsSaidOnce(t *testing.T) {
	var said strings.Builder
	s, err := newSlotFiles(slog.New(slog.NewTextHandler(&said, nil)), smallShape, rooms{}.bytes, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.reserve(1000, 0); !errors.Is(err, errNoRoom) {
			t.Fatal(err)
		}
	}
	if n := strings.Count(said.String(), "a prompt is not shared"); n != 1 || s.refusals() != 3 {
		t.Errorf("said %d times, counted %d: %s", n, s.refusals(), said.String())
	}
	s, err = newSlotFiles(slog.New(slog.NewTextHandler(io.Discard, nil)), smallShape, nil, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if f, err := s.reserve(1000, 0); err != nil || f.bytes == 0 {
		t.Errorf("by the file system's own figures: %v", err)
	}
}

// Without room prompts are computed and not shared, and with room again they are;
// the disk takes what memory has no room for, with the same answers.
func TestSharingAsFarAsThereIsRoom(t *testing.T) {
	disk := t.TempDir()
	var memoryLeft, diskLeft atomic.Int64
	r := start(t, newStore(t), func(s *Sharing) {
		s.Overflow = disk
		s.Room = func(folder string) int64 {
			if folder == disk {
				return diskLeft.Load()
			}
			return memoryLeft.Load()
		}
	}, "-c", "1024", "-np", "1", "--cache-ram", "0")
	prompt := known{tokens: r.tokens("r", 330)}
	prompt.answer = r.ask(greedy(prompt.tokens)).Content
	for _, c := range []struct {
		name              string
		memory, disk      int64
		cached, published int
		refused           bool
	}{
		{"no room", 0, 0, 0, 0, true},
		{"published through the disk", 1000, math.MaxInt64, 0, 1, false},
		{"loaded through the disk", 0, math.MaxInt64, PageTokens, 1, false},
		{"loaded through memory", math.MaxInt64, 0, PageTokens, 1, false},
		{"no room again", 0, 1000, 0, 1, true},
	} {
		memoryLeft.Store(c.memory)
		diskLeft.Store(c.disk)
		before := r.worker.Status()
		r.check(c.name, prompt, c.cached)
		after := r.worker.Status()
		if after.Pages.PagesPublished != int64(c.published) || (after.NoRoom > before.NoRoom) != c.refused {
			t.Errorf("%s: %+v after %+v", c.name, after, before)
		}
		entries, err := os.ReadDir(disk)
		if files := r.slotFiles(); err != nil || len(entries) > 0 || len(files) > 0 {
			t.Errorf("%s: left are %v and %v, %v", c.name, entries, files, err)
		}
	}
}
