package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ollamoon/internal/room"
	"ollamoon/slotfile"
)

// errNoRoom is wrapped when a slot file cannot be written anywhere, or only where
// that takes longer than computing its tokens.
var errNoRoom = errors.New("worker: no room for a slot file")

// slotFiles are where slot files are written: in the engine's folder as long as
// that has room, and else in others, to which a link in the engine's leads. Room
// is looked at before each file, since others write there too; what this process is
// about to write counts as taken.
type slotFiles struct {
	log   *slog.Logger
	shape slotfile.Shape
	bytes func(folder string) int64 // that can be written
	mu    struct {
		sync.Mutex
		places  []*place // the engine's folder first
		refused int64
	}
}

// A place is a folder for slot files.
type place struct {
	folder  string
	pending int64 // bytes of files that are about to be written
	// moved is what a token's rows take through a file here; slow counts how often
	// that was more than computing it.
	moved rate
	slow  int
}

// makeFiles makes the folders for slot files of what is shared, if they have not
// been made.
func (w *Worker) makeFiles(s *Sharing) error {
	if w.files.Load() != nil {
		return nil
	}
	files, err := newSlotFiles(w.config.Logger, s.Shape, s.Room, s.Folder, s.Overflow)
	if err == nil {
		w.files.Store(files)
	}
	return err
}

// newSlotFiles makes the folders. Bytes tells what can be written to one; nil is
// room.Bytes.
func newSlotFiles(log *slog.Logger, shape slotfile.Shape, bytes func(string) int64, folders ...string) (*slotFiles, error) {
	if bytes == nil {
		bytes = room.Bytes
	}
	s := &slotFiles{log: log, shape: shape, bytes: bytes}
	for _, folder := range folders {
		if folder == "" {
			continue
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("making the folder of slot files: %w", err)
		}
		s.mu.places = append(s.mu.places, &place{folder: folder})
	}
	return s, nil
}

// A slotFile is one that a slot is saved into or restored from. Its owner calls
// remove.
type slotFile struct {
	name string // by which the engine knows it
	path string

	files  *slotFiles
	place  *place
	link   string // that leads to the path, where that is not in the engine's folder
	bytes  int64
	tokens int
}

// fileNumber names slot files, apart from those of other processes.
var fileNumber atomic.Int64

func slotFileName() string {
	return fmt.Sprintf("ollamoon-%d-%d", os.Getpid(), fileNumber.Add(1))
}

// reserve returns a file for so many tokens, which is not there yet, or an error
// that wraps errNoRoom. Computing a token is expected to take so long, or 0 where
// nothing is known. It says once that there is no room, and counts from then on.
func (s *slotFiles) reserve(tokens int, compute time.Duration) (*slotFile, error) {
	f, err := s.find(s.size(tokens), compute)
	if err == nil {
		f.tokens = tokens
		return f, nil
	}
	s.refuse(tokens, err)
	return nil, err
}

// refuse counts a file that there was no room for.
func (s *slotFiles) refuse(tokens int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.refused++; s.mu.refused == 1 {
		s.log.Warn("a prompt is not shared, and so it will be with others", "tokens", tokens, "reason", err)
	}
}

// outcome is errNoRoom, refused, for an error of the system that had no room in the
// middle of a file, and else the error.
func (s *slotFiles) outcome(tokens int, err error) error {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, full) {
			err = fmt.Errorf("%w: %w", errNoRoom, err)
			s.refuse(tokens, err)
			return err
		}
	}
	return err
}

// find takes the first place that has room.
func (s *slotFiles) find(need int64, compute time.Duration) (*slotFile, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errNoRoom
	for i, p := range s.mu.places {
		if left := s.bytes(p.folder) - p.pending; left < need {
			err = fmt.Errorf("%w: of %d bytes %s has %d", err, need, p.folder, max(0, left))
			continue
		}
		if i > 0 && p.tooSlow(compute) {
			err = fmt.Errorf("%w: through %s a token takes %v, computing it %v", err, p.folder, p.moved.perUnit, compute)
			continue
		}
		name := slotFileName()
		f := &slotFile{name: name, path: filepath.Join(p.folder, name), files: s, place: p, bytes: need}
		if i > 0 {
			f.link = filepath.Join(s.mu.places[0].folder, name)
			if failed := os.Symlink(f.path, f.link); failed != nil {
				return nil, fmt.Errorf("%w: %w", err, failed)
			}
		}
		p.pending += need
		return f, nil
	}
	return nil, err
}

// tooSlow reports whether a token is computed sooner than it gets through a file
// here. What made the last one slow may have passed: now and then it says no.
func (p *place) tooSlow(compute time.Duration) bool {
	if !p.moved.seen || compute == 0 || p.moved.perUnit < compute {
		p.slow = 0
		return false
	}
	if p.slow++; p.slow <= retryAfter {
		return true
	}
	p.slow, p.moved.seen = 0, false // what is observed next counts alone
	return false
}

// size is what a slot file of so many tokens takes at most: their rows, and for
// each its number and a cell in every section.
func (s *slotFiles) size(tokens int) int64 {
	const header, number, cell = 64 << 10, 4, 24
	each := number
	for i := range s.shape.Sections {
		each += s.shape.Sections[i].PageBytes(1) + cell
	}
	return header + int64(tokens)*int64(each)
}

// refusals counts the files that there was no room for.
func (s *slotFiles) refusals() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.refused
}

// written says that the file has all its bytes, or gets no more: it is the file
// system that counts it from now on.
func (f *slotFile) written() {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	f.place.pending -= f.bytes
	f.bytes = 0
}

// moved says what it took to write the file, and for the engine to read it if that
// is what it is for.
func (f *slotFile) moved(took time.Duration) {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	f.place.moved.observe(took, f.tokens)
}

// remove removes the file, if it is there.
func (f *slotFile) remove() {
	f.written()
	for _, path := range []string{f.link, f.path} {
		if path != "" {
			_ = os.Remove(path) // swept at the next start
		}
	}
}
