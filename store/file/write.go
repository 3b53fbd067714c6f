package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ollamoon/store"
	"ollamoon/store/internal/inflight"
)

// BatchPut implements store.Store. Of a batch that is larger than the budget the
// first items are stored; those that do not fit beside them are store.ErrFull.
func (s *Store) BatchPut(ctx context.Context, items []store.Item) []error {
	ctx, end, err := s.calls.Begin(ctx)
	if err != nil {
		return store.Errors(len(items), fmt.Errorf("writing to %s: %w", s.dir, err))
	}
	defer end()
	errs := make([]error, len(items))
	fits := s.fitting(items)
	began := time.Now()
	s.touch(items, began)
	each(len(items), func(i int) {
		if err := s.put(ctx, items[i], fits[i], began, i); err != nil {
			errs[i] = fmt.Errorf("writing %s to %s: %w", items[i].Key, s.dir, err)
		}
	})
	return errs
}

// touch makes what is there of a batch the latest used, however lately it was
// used: it must not make room for the rest.
func (s *Store) touch(items []store.Item, now time.Time) {
	if len(items) < 2 {
		return
	}
	for i, item := range items {
		path, _ := s.path(item.Key)
		_ = os.Chtimes(path, time.Time{}, timeOfUse(now, i)) // most are not there
	}
}

// fitting reports which items fit into the budget together with those before.
func (s *Store) fitting(items []store.Item) []bool {
	fits := make([]bool, len(items))
	room := s.budget
	for i, item := range items {
		if store.CheckItem(item) == nil {
			room -= blocks(fileBytes(item))
		}
		fits[i] = room >= 0
	}
	return fits
}

func fileBytes(item store.Item) int64 { return int64(len(item.Bytes) + footerBytes(item.Key)) }

// put stores item i of a batch.
func (s *Store) put(ctx context.Context, item store.Item, fits bool, now time.Time, i int) error {
	if err := store.CheckItem(item); err != nil {
		return err
	}
	if err := inflight.Err(ctx); err != nil {
		return err
	}
	path, _ := s.path(item.Key)
	switch there, err := s.use(path, now, i); {
	case err != nil:
		return err
	case there:
		return store.ErrExists
	case !fits:
		return fmt.Errorf("%w: %d bytes, and those before in the batch, do not fit into %d", store.ErrFull, len(item.Bytes), s.budget)
	}
	err := s.write(ctx, item, s.budget, timeOfUse(now, i))
	if !diskFull(err) {
		return err
	}
	// Others fill the disk: within what is left, new objects still replace old.
	used, usedErr := s.usedNow(ctx)
	if size := blocks(fileBytes(item)); usedErr == nil && used >= size {
		err = s.write(ctx, item, used, timeOfUse(now, i))
	}
	return err
}

// usedNow returns what counts against the budget.
func (s *Store) usedNow(ctx context.Context) (int64, error) {
	u, err := s.lock(ctx)
	if err != nil {
		return 0, err
	}
	return u.total(), u.unlock()
}

// write stores an object within a limit on what counts against the budget.
func (s *Store) write(ctx context.Context, item store.Item, limit int64, used time.Time) error {
	t, err := s.reserve(ctx, fileBytes(item), limit)
	if err != nil {
		return err
	}
	defer t.discard()
	if err := t.write(ctx, used, item.Bytes, footer(item.Key, int64(len(item.Bytes)))); err != nil {
		return err
	}
	return s.publish(ctx, t, item.Key)
}

// reserve makes room for a file of size bytes, and the file, still empty.
func (s *Store) reserve(ctx context.Context, size, limit int64) (*temp, error) {
	u, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	var t *temp
	if err = u.shrink(ctx, limit-blocks(size)); err == nil {
		t, err = u.newTemp(size)
	}
	if unlockErr := u.unlock(); err == nil && unlockErr != nil {
		t.discard()
		err = unlockErr
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// publish links a written file to its name, unless that name is taken.
func (s *Store) publish(ctx context.Context, t *temp, key string) error {
	u, err := s.lock(ctx)
	if err != nil {
		return err
	}
	err = u.link(t, key)
	if unlockErr := u.unlock(); err == nil {
		err = unlockErr
	}
	if err == nil {
		s.counts.puts.Add(1)
	}
	return err
}

func (u *usage) link(t *temp, key string) error {
	path, shard := u.store.path(key)
	// The count is saved first: it must not be too low if this process dies now.
	u.add(shard, t.counts)
	if err := u.save(); err != nil {
		u.add(shard, -t.counts)
		return err
	}
	err := os.Link(t.path, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(filepath.Dir(path), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Link(t.path, path)
		}
	}
	if err == nil {
		_ = os.Remove(t.path) // the object is stored; what is left in tmp is swept
		return nil
	}
	u.add(shard, -t.counts)
	if errors.Is(err, fs.ErrExist) {
		return store.ErrExists
	}
	return writeError(err)
}

// Discard implements store.Store.
func (s *Store) Discard(ctx context.Context, key string) error {
	if err := s.discard(ctx, key); err != nil {
		return fmt.Errorf("discarding %s from %s: %w", key, s.dir, err)
	}
	return nil
}

func (s *Store) discard(ctx context.Context, key string) error {
	ctx, end, err := s.calls.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := inflight.Err(ctx); err != nil {
		return err
	}
	if store.CheckKey(key) != nil {
		return nil
	}
	path, shard := s.path(key)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	u, err := s.lock(ctx)
	if err != nil {
		return err
	}
	if info, statErr := os.Lstat(path); statErr == nil {
		err = u.remove(entry{path: path, shard: shard, size: blocks(info.Size())})
	}
	return errors.Join(err, u.unlock())
}
