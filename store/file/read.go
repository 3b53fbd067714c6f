package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"ollamoon/store"
	"ollamoon/store/internal/inflight"
)

// BatchExist implements store.Store.
func (s *Store) BatchExist(ctx context.Context, keys []string) ([]bool, error) {
	ctx, end, err := s.calls.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking up %d objects in %s: %w", len(keys), s.dir, err)
	}
	defer end()
	present := make([]bool, len(keys))
	began := time.Now()
	for i, key := range keys {
		if err := inflight.Err(ctx); err != nil {
			return nil, fmt.Errorf("looking up %d objects in %s: %w", len(keys), s.dir, err)
		}
		if store.CheckKey(key) != nil {
			continue
		}
		path, _ := s.path(key)
		if present[i], err = s.use(path, began, i); err != nil {
			return nil, fmt.Errorf("looking up %s in %s: %w", key, s.dir, err)
		}
	}
	return present, nil
}

// use reports whether a file is there and renews its time of last use, as that
// of item i of a batch: earlier items count as used later.
func (s *Store) use(path string, now time.Time, i int) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		if err := readError(err); !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		return false, nil
	}
	s.renew(path, info, now, i)
	return info.Mode().IsRegular(), nil
}

func (s *Store) renew(path string, info fs.FileInfo, now time.Time, i int) {
	if now.Sub(info.ModTime()) < s.renewAfter {
		return
	}
	// An object that goes, or a folder for reading only, has no use for it.
	_ = os.Chtimes(path, time.Time{}, timeOfUse(now, i))
}

func timeOfUse(now time.Time, i int) time.Time { return now.Add(-time.Duration(i) * time.Microsecond) }

// BatchGet implements store.Store.
func (s *Store) BatchGet(ctx context.Context, items []store.Item) []error {
	ctx, end, err := s.calls.Begin(ctx)
	if err != nil {
		return store.Errors(len(items), fmt.Errorf("reading from %s: %w", s.dir, err))
	}
	defer end()
	errs := make([]error, len(items))
	began := time.Now()
	each(len(items), func(i int) {
		if err := s.read(ctx, items[i], began, i); err != nil {
			errs[i] = fmt.Errorf("reading %s from %s: %w", items[i].Key, s.dir, err)
		}
	})
	return errs
}

// read reads item i of a batch.
func (s *Store) read(ctx context.Context, item store.Item, now time.Time, i int) error {
	if err := store.CheckItem(item); err != nil {
		return err
	}
	if err := inflight.Err(ctx); err != nil {
		return err
	}
	path, _ := s.path(item.Key)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0) //nolint:gosec // a name in the folder
	if err != nil {
		s.counts.misses.Add(1)
		return readError(err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	info, err := f.Stat()
	if err != nil {
		return readError(err)
	}
	err = readObject(ctx, f, info.Size(), item)
	switch {
	case err == nil:
		s.counts.hits.Add(1)
		s.renew(path, info, now, i)
		if item.Done != nil {
			item.Done()
		}
	case errors.Is(err, errDamaged):
		_ = os.Remove(path) // its count is put right when its shard is next visited
		s.counts.damaged.Add(1)
		s.counts.misses.Add(1)
		return fmt.Errorf("%w: %w", store.ErrNotFound, err)
	case errors.Is(err, store.ErrLength):
		s.counts.misses.Add(1)
	}
	return err
}

// errDamaged: a file is not a whole object of its key.
var errDamaged = errors.New("store/file: damaged")

// readObject reads the object in f, a file of size bytes.
func readObject(ctx context.Context, f *os.File, size int64, item store.Item) error {
	length := size - int64(footerBytes(item.Key))
	if length < 1 {
		return fmt.Errorf("%w: %d bytes", errDamaged, size)
	}
	end := make([]byte, footerBytes(item.Key))
	if err := readAt(f, end, length); err != nil {
		return err
	}
	if !bytes.Equal(end, footer(item.Key, length)) {
		return fmt.Errorf("%w: no footer", errDamaged)
	}
	if length != int64(len(item.Bytes)) {
		return fmt.Errorf("%w: the object has %d bytes, the buffer %d", store.ErrLength, length, len(item.Bytes))
	}
	for at := 0; at < len(item.Bytes); at += chunkBytes {
		if err := inflight.Err(ctx); err != nil {
			return err
		}
		if err := readAt(f, item.Bytes[at:min(at+chunkBytes, len(item.Bytes))], int64(at)); err != nil {
			return err
		}
	}
	return nil
}

func readAt(f *os.File, b []byte, at int64) error {
	_, err := f.ReadAt(b, at)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: cut short", errDamaged)
	}
	return readError(err)
}
