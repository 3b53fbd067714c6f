package memory

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ollamoon/store"
	"ollamoon/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, budget int64) *Store {
	t.Helper()
	s, err := New(budget)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Open: func(t *testing.T) store.Store { return open(t, storetest.RoomBytes) },
		Corrupt: func(t *testing.T, s store.Store, key string, offset int) {
			m := s.(*Store)
			m.mu.Lock()
			defer m.mu.Unlock()
			// Readers may hold the object: it is replaced, not written to.
			e := m.mu.objects[key]
			changed := *e.Value.(*object)
			changed.bytes = bytes.Clone(changed.bytes)
			changed.bytes[offset] ^= 0x40
			e.Value = &changed
		},
	})
}

func TestBudgetIsChecked(t *testing.T) {
	for _, budget := range []int64{0, -1} {
		if _, err := New(budget); err == nil {
			t.Errorf("a budget of %d was taken", budget)
		}
	}
}

// put stores objects of ten bytes in one batch and returns the results.
func put(t *testing.T, s *Store, keys ...string) []error {
	t.Helper()
	items := make([]store.Item, len(keys))
	for i, key := range keys {
		items[i] = store.Item{Key: key, Bytes: []byte(fmt.Sprintf("%-10s", key))}
	}
	return s.BatchPut(t.Context(), items)
}

// held returns which of the keys a to z have objects, without using them.
func held(s *Store) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key := range s.mu.objects {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return strings.Join(keys, "")
}

func TestTheLeastRecentlyUsedMakeRoom(t *testing.T) {
	s := open(t, 45)
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"fill", func() { put(t, s, "a"); put(t, s, "b"); put(t, s, "c"); put(t, s, "d") }, "abcd"},
		{"the oldest goes", func() { put(t, s, "e") }, "bcde"},
		{"a read is a use", func() {
			s.BatchGet(t.Context(), []store.Item{{Key: "b", Bytes: make([]byte, 10)}})
			put(t, s, "f")
		}, "bdef"},
		{"a question is a use", func() { _, _ = s.BatchExist(t.Context(), []string{"d"}); put(t, s, "g") }, "bdfg"},
		{"a put of a present key is a use", func() { put(t, s, "b"); put(t, s, "h") }, "bdgh"},
		{"a batch loses its end first", func() { put(t, s, "p", "q", "r", "s"); put(t, s, "t", "u") }, "pqtu"},
		{"of a batch read the end goes first", func() {
			_, _ = s.BatchExist(t.Context(), []string{"q", "u", "p", "t"})
			put(t, s, "v", "w")
		}, "quvw"},
		{"one large object takes the room of several", func() {
			s.BatchPut(t.Context(), []store.Item{{Key: "x", Bytes: make([]byte, 25)}})
		}, "vwx"},
	} {
		step.do()
		if got := held(s); got != step.want {
			t.Errorf("%s: held are %s, want %s", step.name, got, step.want)
		}
		if stats := s.Stats(); stats.Bytes > 45 || stats.Objects != len(held(s)) {
			t.Errorf("%s: %+v", step.name, stats)
		}
	}
}

func TestFull(t *testing.T) {
	s := open(t, 25)
	put(t, s, "a")
	large := []store.Item{{Key: "x", Bytes: make([]byte, 26)}}
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

func TestStats(t *testing.T) {
	s := open(t, 25)
	put(t, s, "a", "b")
	put(t, s, "c")
	s.BatchGet(t.Context(), []store.Item{
		{Key: "a", Bytes: make([]byte, 10)}, {Key: "a", Bytes: make([]byte, 9)}, {Key: "b", Bytes: make([]byte, 10)},
	})
	if err := s.Discard(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	want := Stats{Objects: 1, Bytes: 10, Puts: 3, Hits: 1, Misses: 2, Evictions: 1, Discards: 1}
	if got := s.Stats(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func BenchmarkGet(b *testing.B) {
	const pages, size = 7, 14680064
	s := open(b, pages*size)
	items := make([]store.Item, pages)
	for i := range items {
		items[i] = store.Item{Key: fmt.Sprint(i), Bytes: make([]byte, size)}
	}
	if err := errors.Join(s.BatchPut(b.Context(), items)...); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(pages * size)
	for b.Loop() {
		if err := errors.Join(s.BatchGet(b.Context(), items)...); err != nil {
			b.Fatal(err)
		}
	}
}

// A page that is there already stays while the rest of its batch makes room.
func TestABatchKeepsItsOwn(t *testing.T) {
	s, err := New(30)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing depends on it
	item := func(key string) store.Item { return store.Item{Key: key, Bytes: make([]byte, 10)} }
	for _, key := range []string{"a", "x", "y"} {
		if err := s.BatchPut(t.Context(), []store.Item{item(key)})[0]; err != nil {
			t.Fatal(err)
		}
	}
	errs := s.BatchPut(t.Context(), []store.Item{item("a"), item("b")})
	if !errors.Is(errs[0], store.ErrExists) || errs[1] != nil {
		t.Errorf("put: %v", errs)
	}
	there, err := s.BatchExist(t.Context(), []string{"a", "b", "x", "y"})
	if want := []bool{true, true, false, true}; err != nil || !slices.Equal(there, want) {
		t.Errorf("there: %v, %v; want %v", there, err, want)
	}
}
