package file

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ollamoon/store"
	"ollamoon/store/internal/inflight"
)

// lockWait is how long a call waits for the lock of the folder.
const lockWait = 10 * time.Second

// The usage file: the magic, whose last byte is the version, the boot's ID in 40
// bytes, and the byte count of each shard in 8 bytes, little-endian.
const (
	usageMagic  = "OMUSAGE1"
	bootIDBytes = 40
	usageBytes  = len(usageMagic) + bootIDBytes + 8*shardCount
)

// usage is the usage file, held under the folder's lock: whoever adds or removes
// files to be counted holds one.
type usage struct {
	store  *Store
	file   *os.File
	shards [shardCount]int64 // bytes of objects, never less than there are
	temps  int64             // bytes of files in tmp, at their final size
	saved  bool              // shards are as in the file
}

// lock waits for the folder's lock. The error is one of a write.
func (s *Store) lock(ctx context.Context) (*usage, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, inflight.Err(ctx)
	}
	u := &usage{store: s}
	err := u.open(ctx)
	if err == nil {
		err = u.load(ctx)
	}
	if err != nil {
		_ = u.release()
		return nil, err
	}
	return u, nil
}

// open opens the usage file and locks it. flock cannot wait for a context, so
// this asks again and again.
func (u *usage) open(ctx context.Context) error {
	deadline := time.Now().Add(lockWait)
	for {
		held, err := u.tryLock()
		if held || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: another process has held the lock of %s for %v", store.ErrUnavailable, u.store.dir, lockWait)
		}
		pause := time.NewTimer(time.Millisecond/4 + rand.N(time.Millisecond)) //nolint:gosec // no secret
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return inflight.Err(ctx)
		}
	}
}

// tryLock reports whether it got the lock of the usage file that is in the
// folder now.
func (u *usage) tryLock() (bool, error) {
	if u.file == nil {
		f, err := os.OpenFile(u.store.usagePath(), os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) { // the folder was removed
			if err := u.store.prepare(); err != nil {
				return false, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
			}
			return false, nil
		}
		if err != nil {
			return false, writeError(err)
		}
		u.file = f
	}
	err := flock(u.file, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, writeError(err)
	}
	mine, err := u.file.Stat()
	if err != nil {
		return false, writeError(err)
	}
	if named, err := os.Stat(u.store.usagePath()); err == nil && os.SameFile(mine, named) {
		return true, nil
	}
	err = u.file.Close()
	u.file = nil
	return false, err
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// load reads the counts, or counts anew when they are of another boot or none.
func (u *usage) load(ctx context.Context) error {
	b := make([]byte, usageBytes)
	if _, err := u.file.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return writeError(err)
	}
	var err error
	if u.temps, err = u.store.tempBytes(); err != nil {
		return writeError(err)
	}
	counted, isThisBoot := bytes.CutPrefix(b, u.store.header)
	if !isThisBoot {
		return u.countAnew(ctx)
	}
	for i := range u.shards {
		u.shards[i] = int64(binary.LittleEndian.Uint64(counted[8*i:])) //nolint:gosec // as written by save
	}
	u.saved = true
	return nil
}

// usageHeader is what a usage file of this boot begins with.
func usageHeader() []byte {
	var boot [bootIDBytes]byte
	copy(boot[:], bootID())
	return append([]byte(usageMagic), boot[:]...)
}

func (u *usage) countAnew(ctx context.Context) error {
	u.sweep()
	for shard := range u.shards {
		if err := inflight.Err(ctx); err != nil {
			return err
		}
		if _, err := u.visit(shard); err != nil {
			return err
		}
	}
	return u.save()
}

// total is what counts against the budget.
func (u *usage) total() int64 {
	sum := u.temps
	for _, n := range u.shards {
		sum += n
	}
	return sum
}

// add changes a shard's count.
func (u *usage) add(shard int, n int64) {
	u.shards[shard] = max(0, u.shards[shard]+n)
	u.saved = false
}

// save writes the counts, in one write within a page, which a kill does not
// split.
func (u *usage) save() error {
	b := bytes.Clone(u.store.header)
	for _, n := range u.shards {
		b = binary.LittleEndian.AppendUint64(b, uint64(n)) //nolint:gosec // not negative
	}
	if _, err := u.file.WriteAt(b, 0); err != nil {
		return writeError(err)
	}
	u.saved = true
	return nil
}

// unlock saves the counts and gives the lock back.
func (u *usage) unlock() error {
	var err error
	if !u.saved {
		err = u.save()
	}
	return errors.Join(err, u.release())
}

// release gives the lock back. A child that is being started may have the file
// open for a moment longer, so closing alone would not.
func (u *usage) release() error {
	defer func() { <-u.store.turn }()
	if u.file == nil {
		return nil
	}
	err := flock(u.file, unix.LOCK_UN)
	return errors.Join(err, u.file.Close())
}
