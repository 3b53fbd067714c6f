package file

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ollamoon/store"
)

func used(t testing.TB, s *Store) int64 {
	t.Helper()
	n, err := s.Used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Counts that are of another boot, or are no counts, are made anew.
func TestCountsOfAnotherBoot(t *testing.T) {
	for name, contents := range map[string]func(b []byte) []byte{
		"another boot": func(b []byte) []byte { b[len(usageMagic)+3]++; return b },
		"empty":        func([]byte) []byte { return nil },
		"zeroes":       func(b []byte) []byte { clear(b); return b },
		"cut short":    func(b []byte) []byte { return b[:20] },
		"other bytes":  func([]byte) []byte { return []byte("something else") },
	} {
		dir := newDir(t)
		s := open(t, dir, 3*blockBytes)
		put(t, s, "a")
		put(t, s, "b")
		b, err := os.ReadFile(s.usagePath())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.usagePath(), contents(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := used(t, open(t, dir, 3*blockBytes)); got != 2*blockBytes {
			t.Errorf("%s: counted are %d bytes, want two blocks", name, got)
		}
		put(t, s, "c")
		put(t, s, "d")
		if got := held(s); got != "bcd" {
			t.Errorf("%s: held are %s", name, got)
		}
	}
}

// A count that is too high, as a killed process leaves it, is put right before
// anything is evicted for it.
func TestCountsThatAreTooHigh(t *testing.T) {
	s := open(t, newDir(t), 3*blockBytes)
	put(t, s, "a", "b")
	u, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u.add(7, 100*blockBytes)
	if err := u.unlock(); err != nil {
		t.Fatal(err)
	}
	if got := used(t, s); got != 102*blockBytes {
		t.Fatalf("counted are %d bytes", got)
	}
	if err := put(t, s, "c")[0]; err != nil {
		t.Error(err)
	}
	if got := held(s); got != "abc" {
		t.Errorf("held are %s", got)
	}
	if got := used(t, s); got != 3*blockBytes {
		t.Errorf("counted are %d bytes, want three blocks", got)
	}
}

// A process that is killed at the worst moment, with its object linked and its
// lock gone, leaves no count that is too low.
func TestCountsOfAProcessThatDies(t *testing.T) {
	dir := newDir(t)
	s := open(t, dir, 1<<20)
	writer, err := s.reserve(t.Context(), fileBytes(store.Item{Key: "a", Bytes: object("a")}), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.discard()
	if err := writer.write(t.Context(), time.Now(), object("a"), footer("a", int64(len(object("a"))))); err != nil {
		t.Fatal(err)
	}
	u, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(u.link(writer, "a"), u.release()); err != nil {
		t.Fatal(err)
	}
	second := open(t, dir, 1<<20)
	if got := used(t, second); got != blockBytes {
		t.Errorf("counted are %d bytes, want a block", got)
	}
	if err := get(t, second, "a"); err != nil {
		t.Error(err)
	}
}

// Leftovers are swept, files of live writers and of others are not.
func TestSweep(t *testing.T) {
	dir := newDir(t)
	s := open(t, dir, 1<<20)
	live, err := s.reserve(t.Context(), 5000, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer live.discard()
	leftover := filepath.Join(s.tempDir(), "12288-00112233445566aa")
	others := filepath.Join(s.tempDir(), "notes")
	for _, path := range []string{leftover, others} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := used(t, s), blocks(5000)+12288; got != want {
		t.Errorf("before, %d bytes are counted, want %d", got, want)
	}
	second := open(t, dir, 1<<20)
	if got := second.Stats().Swept; got != 1 {
		t.Errorf("swept were %d files", got)
	}
	names, _ := files(t, dir)
	if want := filepath.Join(tempName, filepath.Base(live.path)); len(names) != 2 || names[0] != want && names[1] != want {
		t.Errorf("after the sweep there are %v", names)
	}
	if got := used(t, s); got != blocks(5000) {
		t.Errorf("after, %d bytes are counted", got)
	}
}

// Room is not made twice over for what is being written, nor taken from it.
func TestWritersReserveTheirRoom(t *testing.T) {
	s := open(t, newDir(t), 3*blockBytes)
	live, err := s.reserve(t.Context(), 2*blockBytes, s.budget)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a")
	if err := put(t, s, "b")[0]; err != nil || held(s) != "b" {
		t.Errorf("a put beside a writer: %v, held are %s", err, held(s))
	}
	large := []store.Item{{Key: "x", Bytes: make([]byte, blockBytes)}}
	if err := s.BatchPut(t.Context(), large)[0]; !errors.Is(err, store.ErrFull) {
		t.Errorf("a put for which a writer leaves no room: %v", err)
	}
	live.discard()
	if err := s.BatchPut(t.Context(), large)[0]; err != nil {
		t.Errorf("after the writer gave up: %v", err)
	}
}

func TestWaitingForTheLockObeysItsContext(t *testing.T) {
	dir := newDir(t)
	holder, s := open(t, dir, 1<<20), open(t, dir, 1<<20)
	put(t, s, "a")
	u, err := holder.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	items := []store.Item{{Key: "b", Bytes: object("b")}}
	if err := s.BatchPut(ctx, items)[0]; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a put: %v", err)
	}
	if err := s.Discard(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a discard: %v", err)
	}
	if err := get(t, s, "a"); err != nil {
		t.Errorf("a read waited for the lock: %v", err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.BatchPut(context.Background(), items)[0]; !errors.Is(err, store.ErrClosed) {
			t.Errorf("a put while the store closes: %v", err)
		}
	})
	time.Sleep(20 * time.Millisecond)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	all.Wait()
	if err := u.unlock(); err != nil {
		t.Fatal(err)
	}
	if err := put(t, holder, "b")[0]; err != nil {
		t.Errorf("after the lock was given back: %v", err)
	}
}

// The folder may go away under a store: a put makes it again.
func TestTheFolderIsRemoved(t *testing.T) {
	dir := newDir(t)
	s := open(t, dir, 1<<20)
	put(t, s, "a")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := get(t, s, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a read: %v", err)
	}
	if err := put(t, s, "b")[0]; err != nil {
		t.Errorf("a put: %v", err)
	}
	if err := get(t, s, "b"); err != nil {
		t.Error(err)
	}
	if got := used(t, s); got != blockBytes {
		t.Errorf("counted are %d bytes, want a block", got)
	}
}
