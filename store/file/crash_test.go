package file

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ollamoon/page"
	"ollamoon/store"
)

const (
	crashBudget    = 3 << 20
	crashKeys      = 60
	crashProcesses = 5
	crashTime      = 4 * time.Second
)

var sealer = new(page.Sealer)

// crashPage returns the number-th of the pages that the processes share: its
// key, ID and sealed object.
func crashPage(number int) (string, page.ID, []byte) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(number)) //nolint:gosec // small
	random := rand.NewChaCha8(seed)
	object := make([]byte, 500+random.Uint64()%200000)
	_, _ = random.Read(object)
	id := page.ID{}
	copy(id.Hash[:], seed[:])
	if err := sealer.Seal(object, id); err != nil {
		panic(err)
	}
	return fmt.Sprint("crash/page ", number), id, object
}

// useUntilKilled puts, reads and discards pages at random. It ends early only
// when something is wrong.
func useUntilKilled() int {
	ctx, cancel := childContext()
	defer cancel()
	s, err := Open(Config{Dir: os.Getenv(dirVariable), BudgetBytes: crashBudget})
	if err != nil {
		return fail(err)
	}
	for ctx.Err() == nil {
		first, n := rand.IntN(crashKeys), 1+rand.IntN(4)
		var items []store.Item
		var ids []page.ID
		for i := first; i < min(first+n, crashKeys); i++ {
			key, id, object := crashPage(i)
			items = append(items, store.Item{Key: key, Bytes: object})
			ids = append(ids, id)
		}
		switch rand.IntN(8) {
		case 0:
			if err := s.Discard(ctx, items[0].Key); err != nil {
				return fail(err)
			}
		case 1, 2, 3:
			for _, err := range s.BatchPut(ctx, items) {
				// Others may be writing all that fits.
				if err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrFull) {
					return fail(err)
				}
			}
		default:
			for i, err := range s.BatchGet(ctx, items) {
				if err == nil {
					_, err = sealer.Open(items[i].Bytes, ids[i])
				}
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return fail(err)
				}
			}
		}
	}
	return fail(errors.New("nobody killed this process"))
}

// Processes share a folder that holds a part of what they put, and are killed at
// random moments. The budget holds all the while; in the end every object there
// is whole, and nothing else is left.
func TestKilledProcesses(t *testing.T) {
	dir := newDir(t)
	s := open(t, dir, crashBudget)
	children := make([]*child, crashProcesses)
	for i := range children {
		children[i] = startChild(t, "use a folder", dir)
	}
	kills := 0
	for deadline := time.Now().Add(crashTime); time.Now().Before(deadline); kills++ {
		time.Sleep(time.Millisecond + rand.N(30*time.Millisecond))
		i := rand.IntN(len(children))
		kill(t, children[i])
		children[i] = startChild(t, "use a folder", dir)
		checkBudget(t, s)
	}
	for _, c := range children {
		kill(t, c)
	}
	t.Logf("%d processes were killed", kills)
	after := open(t, dir, crashBudget)
	if names, err := readNames(after.tempDir()); err != nil || len(names) != 0 {
		t.Errorf("after the sweep tmp holds %v, %v", names, err)
	}
	checkBudget(t, after)
	checkPages(t, after)

	// The counts find their way back to what is there.
	for range 2 {
		for i := range crashKeys {
			key, _, object := crashPage(i)
			err := after.BatchPut(t.Context(), []store.Item{{Key: key, Bytes: object}})[0]
			if err != nil && !errors.Is(err, store.ErrExists) {
				t.Errorf("putting page %d: %v", i, err)
			}
		}
	}
	checkPages(t, after)
	if _, counted := files(t, dir); counted != used(t, after) {
		t.Errorf("the files count %d bytes, the usage file %d", counted, used(t, after))
	}
}

// kill ends a child as kill -9 does, and fails the test when it had ended
// before.
func kill(t *testing.T, c *child) {
	t.Helper()
	_ = c.Process.Kill()
	err := c.Wait()
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		t.Fatalf("a process ended by itself: %v: %s", err, c.Stderr)
	}
}

// checkBudget compares what is in the folder with its counts and the budget at a
// moment when nobody adds to it.
func checkBudget(t *testing.T, s *Store) {
	t.Helper()
	u, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	objects, temps := folderBytes(t, s)
	if counted := u.total() - u.temps; objects > counted {
		t.Errorf("objects of %d bytes are counted as %d", objects, counted)
	}
	if objects+temps > s.budget {
		t.Errorf("%d bytes of objects and %d being written, the budget is %d", objects, temps, s.budget)
	}
	if err := u.unlock(); err != nil {
		t.Fatal(err)
	}
}

// folderBytes returns the bytes of objects, and those that files in tmp count
// for, a file with both names once.
func folderBytes(t *testing.T, s *Store) (objects, temps int64) {
	t.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a writer gave up, a reader removed
		}
		if err != nil || d.IsDir() || d.Name() == usageName {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if filepath.Dir(path) != s.tempDir() {
			objects += blocks(info.Size())
		} else if n, ok := tempSize(d.Name()); ok && info.Sys().(*syscall.Stat_t).Nlink == 1 {
			temps += n
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects, temps
}

// checkPages reads every page that is there.
func checkPages(t *testing.T, s *Store) {
	t.Helper()
	there := 0
	for i := range crashKeys {
		key, id, object := crashPage(i)
		clear(object)
		err := s.BatchGet(t.Context(), []store.Item{{Key: key, Bytes: object}})[0]
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err == nil {
			_, err = sealer.Open(object, id)
		}
		if err != nil {
			t.Errorf("page %d: %v", i, err)
		}
		there++
	}
	found, err := filepath.Glob(filepath.Join(s.dir, "??", "*"))
	if err != nil || len(found) != there || there == 0 {
		t.Errorf("%d pages can be read, %d objects are there, %v", there, len(found), err)
	}
}
