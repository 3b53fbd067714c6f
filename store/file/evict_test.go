package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ollamoon/store"
)

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

// A page that is there already stays while the rest of its batch makes room.
func TestABatchKeepsItsOwn(t *testing.T) {
	s := open(t, newDir(t), 3*blockBytes)
	for _, key := range []string{"a", "x", "y"} {
		put(t, s, key)
		time.Sleep(2 * time.Millisecond) // apart by more than the clock of the files
	}
	if errs := put(t, s, "a", "b"); !errors.Is(errs[0], store.ErrExists) || errs[1] != nil {
		t.Errorf("put: %v", errs)
	}
	if got := held(s); got != "aby" {
		t.Errorf("held are %s, want aby", got)
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
