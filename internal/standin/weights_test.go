package standin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// digest of "hello".
const helloDigest = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"

// helloFile is a file of weights with a time of its own.
func helloFile(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Unix(1700000000, 12345)); err != nil {
		t.Fatal(err)
	}
	return path
}

// forged puts a digest that is none into all that a cache remembers, by which it
// shows whether it reads a file.
func forged(t *testing.T, c weightsCache) string {
	t.Helper()
	const none = "0000000000000000000000000000000000000000000000000000000000000000"
	entries, err := filepath.Glob(filepath.Join(c.folder, "*.json"))
	if err != nil || len(entries) == 0 {
		t.Fatalf("nothing is remembered: %v", err)
	}
	for _, e := range entries {
		remember(e, weightsFile{Digest: none})
	}
	return none
}

// What is remembered is of one inode, size and time; anything else is read.
func TestWeightsAreReadAgain(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "x.gguf")
	other := helloFile(t, filepath.Join(folder, "y.gguf"))
	for name, change := range map[string]func() error{
		"nothing":        func() error { return nil },
		"another name":   func() error { return os.Rename(path, path+".old") },
		"another inode":  func() error { return os.Rename(other, path) },
		"another time":   func() error { return os.Chtimes(path, time.Time{}, time.Unix(1700000000, 12346)) },
		"another size":   func() error { return os.WriteFile(path, []byte("hello there"), 0o600) },
		"other contents": func() error { return os.WriteFile(path, []byte("hallo"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			helloFile(t, path)
			helloFile(t, other)
			c := weightsCache{folder: t.TempDir()}
			if w, err := c.file(t.Context(), path); err != nil || w.Digest != helloDigest {
				t.Fatalf("%+v, %v", w, err)
			}
			none := forged(t, c)
			if err := change(); err != nil {
				t.Fatal(err)
			}
			asked := path
			if name == "another name" {
				asked += ".old"
			}
			w, err := c.file(t.Context(), asked)
			known := name == "nothing" || name == "another name"
			if err != nil || (w.Digest == none) != known {
				t.Errorf("%+v, %v", w, err)
			}
		})
	}
}

// A blob has to be what it is called, also when its digest is remembered.
func TestBlobs(t *testing.T) {
	folder := t.TempDir()
	c := weightsCache{folder: t.TempDir()}
	blob := helloFile(t, filepath.Join(folder, "sha256-"+helloDigest))
	for range 2 {
		if w, err := c.model(t.Context(), blob); err != nil || w.Digest != helloDigest {
			t.Errorf("%+v, %v", w, err)
		}
	}
	wrong := filepath.Join(folder, "sha256-"+strings.Repeat("0", 64))
	if err := os.Link(blob, wrong); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.file(t.Context(), wrong); !errors.Is(err, errBlobName) {
			t.Errorf("a blob of another name: %v", err)
		}
	}
	// A name that only looks like one says nothing.
	if w, err := c.file(t.Context(), helloFile(t, filepath.Join(folder, "sha256-short"))); err != nil || w.Digest != helloDigest {
		t.Errorf("%+v, %v", w, err)
	}
}

// What cannot be believed is not: a memory that is damaged, or that others can
// write to.
func TestDamagedMemory(t *testing.T) {
	path := helloFile(t, filepath.Join(t.TempDir(), "x.gguf"))
	c := weightsCache{folder: t.TempDir()}
	if _, err := c.file(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	entries, err := filepath.Glob(filepath.Join(c.folder, "*.json"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("%v, %v", entries, err)
	}
	for _, text := range []string{"", "{", `{"digest": "12"}`} {
		if err := os.WriteFile(entries[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if w, err := c.file(t.Context(), path); err != nil || w.Digest != helloDigest {
			t.Errorf("%q: %+v, %v", text, w, err)
		}
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", os.Getenv("XDG_CACHE_HOME"))
	private := openWeightsCache()
	if private.folder == "" {
		t.Fatal("there is no folder")
	}
	if err := os.Chmod(private.folder, 0o777); err != nil { //nolint:gosec // what is to be refused
		t.Fatal(err)
	}
	if c := openWeightsCache(); c.folder != "" {
		t.Errorf("a folder that is open to others is used: %s", c.folder)
	}
}

// A file that is written to while it is read has no digest.
func TestWeightsThatChange(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return // the reader has gone
		}
		_, _ = f.Write(make([]byte, 1<<20)) // more than a pipe holds: the reader has begun
		_ = os.Chtimes(path, time.Time{}, time.Unix(1, 0))
		_ = f.Close()
	})
	c := weightsCache{folder: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if w, err := c.file(ctx, path); !errors.Is(err, errChanged) {
		t.Errorf("%+v, %v", w, err)
	}
	if entries, err := os.ReadDir(c.folder); err != nil || len(entries) != 0 {
		t.Errorf("remembered: %v, %v", entries, err)
	}
}
