package file

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ollamoon/store"
	"ollamoon/store/storetest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(roles[role]())
	}
	goleak.VerifyTestMain(m)
}

// newDir returns the name of a folder that does not exist yet.
func newDir(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "pages")
}

func open(t testing.TB, dir string, budget int64) *Store {
	t.Helper()
	s, err := Open(Config{Dir: dir, BudgetBytes: budget})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Open: func(t *testing.T) store.Store { return open(t, newDir(t), storetest.RoomBytes) },
		Another: func(t *testing.T, s store.Store) store.Store {
			return open(t, s.(*Store).dir, storetest.RoomBytes)
		},
		Corrupt: func(t *testing.T, s store.Store, key string, offset int) {
			change(t, s.(*Store), key, func(b []byte) []byte { b[offset] ^= 0x40; return b })
		},
	})
}

// change writes to a key's file behind the store's back.
func change(t *testing.T, s *Store, key string, f func([]byte) []byte) {
	t.Helper()
	path, _ := s.path(key)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// put stores objects of one block each in one batch and returns the results.
func put(t testing.TB, s *Store, keys ...string) []error {
	t.Helper()
	items := make([]store.Item, len(keys))
	for i, key := range keys {
		items[i] = store.Item{Key: key, Bytes: object(key)}
	}
	return s.BatchPut(t.Context(), items)
}

func object(key string) []byte { return []byte(strings.Repeat(key+" ", 20)) }

func get(t testing.TB, s *Store, key string) error {
	t.Helper()
	b := make([]byte, len(object(key)))
	err := s.BatchGet(t.Context(), []store.Item{{Key: key, Bytes: b}})[0]
	if err == nil && !bytes.Equal(b, object(key)) {
		t.Errorf("%s has other bytes", key)
	}
	return err
}

// held returns which of the keys a to z have files, without using them.
func held(s *Store) string {
	var keys []byte
	for c := byte('a'); c <= 'z'; c++ {
		path, _ := s.path(string(c))
		if _, err := os.Lstat(path); err == nil {
			keys = append(keys, c)
		}
	}
	return string(keys)
}

// files returns the folder's files, as names relative to it, and what they count.
func files(t testing.TB, dir string) (names []string, counted int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == usageName {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, name)
		counted += blocks(info.Size())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names, counted
}

func TestObjectsSurviveTheStore(t *testing.T) {
	dir := newDir(t)
	first := open(t, dir, 1<<20)
	put(t, first, "a", "b")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir, 1<<20)
	for _, key := range []string{"a", "b"} {
		if err := get(t, second, key); err != nil {
			t.Error(err)
		}
	}
	if used, err := second.Used(t.Context()); err != nil || used != 2*blockBytes {
		t.Errorf("used are %d bytes, %v; want two blocks", used, err)
	}
}
