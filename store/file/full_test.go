package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"ollamoon/store"
)

// The system refuses more bytes in the middle of an object: the put is ErrFull,
// nothing is left behind, and smaller objects go on. A limit on the size of
// files needs no rights.
func TestFileSizeLimit(t *testing.T) {
	c := startChild(t, "meet a limit", newDir(t))
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %s", err, c.Stderr)
	}
}

func putWithFileLimit() int {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 3 << 20, Max: 3 << 20}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return fail(err)
	}
	ctx, cancel := childContext()
	defer cancel()
	s, err := Open(Config{Dir: os.Getenv(dirVariable), BudgetBytes: 64 << 20})
	if err != nil {
		return fail(err)
	}
	defer s.Close() //nolint:errcheck // it keeps nothing
	err = errors.Join(
		expectPut(ctx, s, "small", 1<<20, nil),
		expectPut(ctx, s, "large", 5<<20, store.ErrFull),
		nothingLeft(s, 1),
		expectPut(ctx, s, "another", 2<<20, nil),
		nothingLeft(s, 2),
	)
	if err != nil {
		return fail(err)
	}
	return 0
}

// expectPut puts an object and returns an error when that does not end as
// wanted.
func expectPut(ctx context.Context, s *Store, key string, size int, want error) error {
	err := s.BatchPut(ctx, []store.Item{{Key: key, Bytes: make([]byte, size)}})[0]
	if errors.Is(err, want) {
		return nil
	}
	return fmt.Errorf("putting %s of %d bytes did not end with %q: %w", key, size, fmt.Sprint(want), err)
}

// nothingLeft returns an error unless the folder has just these many objects.
func nothingLeft(s *Store, objects int) error {
	temps, err := readNames(s.tempDir())
	found, globErr := filepath.Glob(filepath.Join(s.dir, "??", "*"))
	if err != nil || globErr != nil || len(temps) != 0 || len(found) != objects {
		return fmt.Errorf("%d objects and %v in tmp, want %d and none: %w", len(found), temps, objects, errors.Join(err, globErr))
	}
	return nil
}
