package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ollamoon/store"
	"ollamoon/store/internal/inflight"
)

const (
	// sampleObjects is how many objects are looked at, at least, to find the least
	// recently used.
	sampleObjects = 512
	// spareBytes is what is removed beyond what is needed, when objects are many,
	// so that small ones do not each pay for a sample.
	spareBytes = 1 << 20
)

// An entry is an object's file as it was seen under the folder's lock.
type entry struct {
	path  string
	shard int
	size  int64 // as counted
	used  time.Time
}

// shrink removes the least recently used objects until at most limit bytes
// count against the budget. The error wraps store.ErrFull when that cannot be.
func (u *usage) shrink(ctx context.Context, limit int64) error {
	if u.total() <= limit {
		return nil
	}
	u.sweep()
	unseen := rand.Perm(shardCount) //nolint:gosec // any order does
	for u.total() > limit && len(unseen) > 0 {
		var sample []entry
		for len(unseen) > 0 && len(sample) < sampleObjects {
			if err := inflight.Err(ctx); err != nil {
				return err
			}
			seen, err := u.visit(unseen[0])
			if err != nil {
				return err
			}
			sample = append(sample, seen...)
			unseen = unseen[1:]
		}
		if u.total() <= limit { // the counts were too high
			return nil
		}
		low := limit
		if len(sample) >= sampleObjects {
			low -= min(spareBytes, limit/16)
		}
		slices.SortFunc(sample, func(a, b entry) int { return a.used.Compare(b.used) })
		for _, e := range sample {
			if u.total() <= low {
				break
			}
			if err := u.remove(e); err != nil {
				return err
			}
			u.store.counts.evictions.Add(1)
		}
	}
	if over := u.total() - limit; over > 0 {
		return fmt.Errorf("%w: %s lacks %d bytes, which others are writing", store.ErrFull, u.store.dir, over)
	}
	return nil
}

// remove removes an object, unless it is gone already.
func (u *usage) remove(e entry) error {
	if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writeError(err)
	}
	u.add(e.shard, -e.size)
	return nil
}

// visit returns the objects of a shard and puts its count right.
func (u *usage) visit(shard int) ([]entry, error) {
	dir := u.store.shardDir(shard)
	names, err := readNames(dir)
	if err != nil {
		return nil, writeError(err)
	}
	var entries []entry
	var sum int64
	for _, name := range names {
		if !isObjectName(name) {
			continue
		}
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err != nil {
			continue // gone since
		}
		size := blocks(info.Size())
		entries = append(entries, entry{path: path, shard: shard, size: size, used: info.ModTime()})
		sum += size
	}
	u.add(shard, sum-u.shards[shard])
	return entries, nil
}
