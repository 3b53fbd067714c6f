package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestTheLeastRecentlyUsedMakeRoom(t *testing.T) {
	s := open(t, newDir(t), 4*blockBytes)
	s.renewAfter = 0 // every use counts
	use := func(keys ...string) {
		if _, err := s.BatchExist(t.Context(), keys); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"fill", func() { put(t, s, "a"); put(t, s, "b"); put(t, s, "c"); put(t, s, "d") }, "abcd"},
		{"the oldest goes", func() { put(t, s, "e") }, "bcde"},
		{"a read is a use", func() { _ = get(t, s, "b"); put(t, s, "f") }, "bdef"},
		{"a question is a use", func() { use("d"); put(t, s, "g") }, "bdfg"},
		{"a put of a present key is a use", func() { put(t, s, "b"); put(t, s, "h") }, "bdgh"},
		{"a batch loses its end first", func() { put(t, s, "p", "q", "r", "s"); put(t, s, "t", "u") }, "pqtu"},
		{"of a batch used the end goes first", func() { use("q", "u", "p", "t"); put(t, s, "v", "w") }, "quvw"},
		{"one large object takes the room of several", func() {
			s.BatchPut(t.Context(), []store.Item{{Key: "x", Bytes: make([]byte, 2*blockBytes)}})
		}, "vx"},
	} {
		step.do()
		if got := held(s); got != step.want {
			t.Errorf("%s: held are %s, want %s", step.name, got, step.want)
		}
		_, counted := files(t, s.dir)
		used, err := s.Used(t.Context())
		if err != nil || used != counted || used > s.budget {
			t.Errorf("%s: used are %d bytes, %v; the files have %d", step.name, used, err, counted)
		}
	}
}

// A use within a minute of the last is not written down.
func TestUseIsRenewedWhenItIsOld(t *testing.T) {
	s := open(t, newDir(t), 1<<20)
	put(t, s, "a")
	path, _ := s.path("a")
	age := func() time.Duration {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return time.Since(info.ModTime())
	}
	for _, c := range []struct {
		age     time.Duration
		renewed bool
	}{{30 * time.Second, false}, {2 * time.Minute, true}} {
		old := time.Now().Add(-c.age)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		if err := get(t, s, "a"); err != nil {
			t.Fatal(err)
		}
		if renewed := age() < c.age; renewed != c.renewed {
			t.Errorf("a use %v after the last: renewed %v, want %v", c.age, renewed, c.renewed)
		}
	}
}

func TestFull(t *testing.T) {
	s := open(t, newDir(t), 2*blockBytes)
	put(t, s, "a")
	large := []store.Item{{Key: "x", Bytes: make([]byte, 2*blockBytes)}}
	if err := s.BatchPut(t.Context(), large)[0]; !errors.Is(err, store.ErrFull) {
		t.Errorf("an object larger than the budget: %v", err)
	}
	if got := held(s); got != "a" {
		t.Errorf("after an object that cannot fit, held are %s", got)
	}
	errs := put(t, s, "b", "a", "c", "d")
	for i, want := range []error{nil, store.ErrExists, store.ErrFull, store.ErrFull} {
		if !errors.Is(errs[i], want) {
			t.Errorf("item %d of a batch larger than the budget: %v, want %v", i, errs[i], want)
		}
	}
	if got := held(s); got != "ab" {
		t.Errorf("held are %s", got)
	}
}

// With many objects a sample is looked at: what is evicted is old, if not the
// oldest.
func TestEvictionFromASample(t *testing.T) {
	const many = 6 * sampleObjects
	s := open(t, newDir(t), many*blockBytes)
	now := time.Now()
	for i := range many {
		key := fmt.Sprint("object ", i)
		if err := put(t, s, key)[0]; err != nil {
			t.Fatal(err)
		}
		path, _ := s.path(key)
		used := now.Add(time.Duration(i-many) * time.Second)
		if err := os.Chtimes(path, used, used); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		if err := put(t, s, fmt.Sprint("new ", i))[0]; err != nil {
			t.Fatal(err)
		}
	}
	names, counted := files(t, s.dir)
	spare := min(int64(spareBytes), s.budget/16)
	if counted > s.budget || counted < s.budget-2*spare {
		t.Errorf("after eviction there are %d bytes, the budget is %d", counted, s.budget)
	}
	for i := many / 2; i < many; i++ {
		name, _ := objectName(fmt.Sprint("object ", i))
		if !slices.ContainsFunc(names, func(n string) bool { return filepath.Base(n) == name }) {
			t.Errorf("object %d of %d was evicted before older ones", i, many)
		}
	}
}

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
