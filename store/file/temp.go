package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ollamoon/store/internal/inflight"
)

// A temp is an object that is being written. Its name begins with the bytes that
// it counts for, so that whoever holds the folder's lock sees what is taken; its
// own lock says that its writer lives.
type temp struct {
	file   *os.File
	path   string
	counts int64
}

// newTemp makes an empty file for size bytes. Being made and being locked are
// one to all others, who look under the folder's lock.
func (u *usage) newTemp(size int64) (*temp, error) {
	t := &temp{counts: blocks(size)}
	t.path = filepath.Join(u.store.tempDir(), fmt.Sprintf("%d-%016x", t.counts, rand.Uint64())) //nolint:gosec // no secret
	var err error
	t.file, err = os.OpenFile(t.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(u.store.tempDir(), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			t.file, err = os.OpenFile(t.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		}
	}
	if err != nil {
		return nil, writeError(err)
	}
	if err := flock(t.file, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.discard()
		return nil, writeError(err)
	}
	u.temps += t.counts
	return t, nil
}

// write fills the file with parts, and gives it its time of use.
func (t *temp) write(ctx context.Context, used time.Time, parts ...[]byte) error {
	for _, part := range parts {
		for len(part) > 0 {
			if err := inflight.Err(ctx); err != nil {
				return err
			}
			n, err := t.file.Write(part[:min(len(part), chunkBytes)])
			if err != nil {
				return writeError(err)
			}
			part = part[n:]
		}
	}
	return writeError(os.Chtimes(t.path, used, used))
}

// discard removes the file, if it is there still. What it counted for is free
// when it is gone.
func (t *temp) discard() {
	_ = os.Remove(t.path)
	_ = t.file.Close()
}

// tempSize returns what a file in tmp counts for, and whether it is a temp.
func tempSize(name string) (int64, bool) {
	size, random, ok := strings.Cut(name, "-")
	n, err := strconv.ParseInt(size, 10, 64)
	return n, ok && err == nil && n >= 0 && len(random) == 16
}

// tempBytes returns what the files in tmp count for.
func (s *Store) tempBytes() (int64, error) {
	names, err := readNames(s.tempDir())
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, name := range names {
		if n, ok := tempSize(name); ok {
			sum += n
		}
	}
	return sum, nil
}

// sweep removes the leftovers of processes that died.
func (u *usage) sweep() {
	names, err := readNames(u.store.tempDir())
	if err != nil {
		return
	}
	for _, name := range names {
		n, ok := tempSize(name)
		if !ok {
			continue
		}
		path := filepath.Join(u.store.tempDir(), name)
		f, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // a name in the folder
		if err != nil {
			continue
		}
		if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil && os.Remove(path) == nil {
			u.temps -= n
			u.store.counts.swept.Add(1)
		}
		_ = f.Close()
	}
}

// sweepAtOpen sweeps unless another holds the lock: that one does the same when
// it needs room.
func (s *Store) sweepAtOpen() {
	s.turn <- struct{}{}
	u := &usage{store: s, saved: true}
	if held, err := u.tryLock(); held && err == nil {
		u.sweep()
	}
	_ = u.release()
}

// readNames returns the names in a folder, none when it does not exist.
func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir) //nolint:gosec // a folder of the store
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return f.Readdirnames(-1)
}
