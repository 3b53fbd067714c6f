package file

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"ollamoon/store"
)

// What a crash of the machine can leave is a miss and does not stand in the way.
func TestFilesThatAreNoObjects(t *testing.T) {
	length := len(object("a"))
	for name, f := range map[string]func([]byte) []byte{
		"empty":                    func([]byte) []byte { return nil },
		"one byte":                 func(b []byte) []byte { return b[:1] },
		"the footer lost":          func(b []byte) []byte { return b[:length] },
		"the last byte lost":       func(b []byte) []byte { return b[:len(b)-1] },
		"the first byte lost":      func(b []byte) []byte { return b[1:] },
		"more than was written":    func(b []byte) []byte { return append(b, 0) },
		"zeroes":                   func(b []byte) []byte { return make([]byte, len(b)) },
		"another key's":            func(b []byte) []byte { b[length] ^= 1; return b },
		"another format's version": func(b []byte) []byte { b[len(b)-1]++; return b },
	} {
		s := open(t, newDir(t), 1<<20)
		put(t, s, "a")
		change(t, s, "a", f)
		if err := get(t, s, "a"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := put(t, s, "a")[0]; err != nil {
			t.Errorf("%s: putting again: %v", name, err)
		}
		if err := get(t, s, "a"); err != nil {
			t.Errorf("%s: reading again: %v", name, err)
		}
		if got := s.Stats(); got != (Stats{Puts: 2, Hits: 1, Misses: 1, Damaged: 1}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A link in the place of an object is not followed.
func TestLinksAreNotFollowed(t *testing.T) {
	s := open(t, newDir(t), 1<<20)
	put(t, s, "a", "b")
	a, _ := s.path("a")
	b, _ := s.path("b")
	if err := errors.Join(os.Remove(a), os.Symlink(b, a)); err != nil {
		t.Fatal(err)
	}
	if err := get(t, s, "a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("reading it: %v", err)
	}
	if present, err := s.BatchExist(t.Context(), []string{"a"}); err != nil || present[0] {
		t.Errorf("asking for it: %v, %v", present, err)
	}
}

// An object that is evicted while it is read stays whole for the reader.
func TestEvictionDuringARead(t *testing.T) {
	s := open(t, newDir(t), 1<<20)
	path, _ := s.path("a")
	item := store.Item{Key: "a", Bytes: make([]byte, len(object("a")))}
	put(t, s, "a")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if err := s.Discard(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	size := int64(len(item.Bytes) + footerBytes("a"))
	if err := readObject(t.Context(), f, size, item); err != nil || !bytes.Equal(item.Bytes, object("a")) {
		t.Errorf("reading on: %v", err)
	}
	if err := get(t, s, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("reading again: %v", err)
	}
}

// A countdown is a context that is done after a number of looks at it.
type countdown struct {
	context.Context
	looks int
}

func (c *countdown) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A large object is read and written in parts; between two of them the context
// is obeyed.
func TestCancelInTheMiddleOfAnObject(t *testing.T) {
	s := open(t, newDir(t), 32<<20)
	item := store.Item{Key: "large", Bytes: bytes.Repeat([]byte{1}, 8*chunkBytes)}
	if err := s.BatchPut(t.Context(), []store.Item{item})[0]; err != nil {
		t.Fatal(err)
	}
	path, _ := s.path(item.Key)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	clear(item.Bytes)
	ctx := &countdown{Context: t.Context(), looks: 6}
	if err := readObject(ctx, f, int64(len(item.Bytes)+footerBytes(item.Key)), item); !errors.Is(err, context.Canceled) {
		t.Errorf("reading: %v", err)
	}
	if read := bytes.Count(item.Bytes, []byte{1}); read == 0 || read == len(item.Bytes) {
		t.Errorf("of %d bytes %d were read", len(item.Bytes), read)
	}
	ctx = &countdown{Context: t.Context(), looks: 6}
	writer, err := s.reserve(t.Context(), int64(len(item.Bytes)), s.budget)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.discard()
	if err := writer.write(ctx, time.Now(), item.Bytes); !errors.Is(err, context.Canceled) {
		t.Errorf("writing: %v", err)
	}
	info, err := writer.file.Stat()
	if err != nil || info.Size() == 0 || info.Size() == int64(len(item.Bytes)) {
		t.Errorf("of %d bytes %d were written, %v", len(item.Bytes), info.Size(), err)
	}
}
