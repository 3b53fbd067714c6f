package faulty

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/store"
	"ollamoon/store/memory"
	"ollamoon/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *Store {
	t.Helper()
	beneath, err := memory.New(storetest.RoomBytes)
	if err != nil {
		t.Fatal(err)
	}
	s := New(beneath)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// filled returns a Store with the objects a, b and c, five times their letter.
func filled(t *testing.T) *Store {
	t.Helper()
	s := open(t)
	for _, key := range []string{"a", "b", "c"} {
		if err := s.BatchPut(t.Context(), []store.Item{{Key: key, Bytes: []byte(strings.Repeat(key, 5))}})[0]; err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// get reads a, b and c; the strings are what Done saw.
func get(ctx context.Context, s *Store) (seen [3]string, errs []error) {
	items := make([]store.Item, 3)
	for i, key := range []string{"a", "b", "c"} {
		items[i] = store.Item{Key: key, Bytes: make([]byte, 5)}
		items[i].Done = func() { seen[i] = string(items[i].Bytes) }
	}
	errs = s.BatchGet(ctx, items)
	return seen, errs
}

// Without faults it is the store beneath, and keeps the contract.
func TestWithoutFaults(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Open: func(t *testing.T) store.Store { return open(t) },
		Corrupt: func(t *testing.T, s store.Store, key string, offset int) {
			s.(*Store).Add(Fault{Ops: Get, Keys: Key(key), Times: 1, Change: func(b []byte) { b[offset] ^= 1 }})
		},
	})
}

func TestErrors(t *testing.T) {
	s := filled(t)
	s.Add(Fault{Ops: Get, Keys: Key("b"), Err: store.ErrUnavailable})
	seen, errs := get(t.Context(), s)
	if seen != [3]string{"aaaaa", "", "ccccc"} || errs[0] != nil || !errors.Is(errs[1], store.ErrUnavailable) || errs[2] != nil {
		t.Errorf("read %q, %v", seen, errs)
	}
	if present, err := s.BatchExist(t.Context(), []string{"b"}); err != nil || !present[0] {
		t.Errorf("a fault of Get reached BatchExist: %v", err)
	}
	s.Clear()
	if _, errs := get(t.Context(), s); errors.Join(errs...) != nil {
		t.Errorf("after Clear: %v", errs)
	}
	s.Add(Fault{Err: store.ErrUnavailable})
	if _, err := s.BatchExist(t.Context(), []string{"a"}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("BatchExist: %v", err)
	}
	if err := s.BatchPut(t.Context(), []store.Item{{Key: "d", Bytes: []byte("d")}})[0]; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("BatchPut: %v", err)
	}
	if err := s.Discard(t.Context(), "a"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Discard: %v", err)
	}
	if calls, keys := s.Calls(Get); calls != 2 || keys != 6 {
		t.Errorf("%d calls of Get with %d keys", calls, keys)
	}
}

func TestSkipAndTimes(t *testing.T) {
	s := filled(t)
	s.Add(Fault{Ops: Get, Skip: 2, Times: 3, Err: store.ErrNotFound})
	var failed []bool
	for range 3 {
		_, errs := get(t.Context(), s)
		for _, err := range errs {
			failed = append(failed, err != nil)
		}
	}
	if want := []bool{false, false, true, true, true, false, false, false, false}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
}

func TestChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte)
		want   string
	}{
		"flip":        {Flip, "bbcbb"},
		"zero":        {Zero, "\x00\x00\x00\x00\x00"},
		"swap":        {Swap([]byte("other bytes")), "other"},
		"swap, short": {Swap([]byte("xy")), "xy\x00\x00\x00"},
	} {
		s := filled(t)
		s.Add(Fault{Keys: Key("b"), Change: c.change, Times: 1})
		if seen, errs := get(t.Context(), s); seen != [3]string{"aaaaa", c.want, "ccccc"} || errors.Join(errs...) != nil {
			t.Errorf("%s: read %q, %v", name, seen, errs)
		}
		b := make([]byte, 5)
		if err := s.BatchGet(t.Context(), []store.Item{{Key: "b", Bytes: b}})[0]; err != nil || !bytes.Equal(b, []byte("bbbbb")) {
			t.Errorf("%s: the stored object is %q, %v", name, b, err)
		}
	}
}

func TestLies(t *testing.T) {
	s := filled(t)
	s.Add(Fault{Keys: Key("a"), Deny: true}, Fault{Keys: Key("x"), Claim: true}, Fault{Keys: Key("lost"), Deny: true})
	present, err := s.BatchExist(t.Context(), []string{"a", "b", "x", "y"})
	if err != nil || !slices.Equal(present, []bool{false, true, true, false}) {
		t.Errorf("present %v, %v", present, err)
	}
	if _, errs := get(t.Context(), s); !errors.Is(errs[0], store.ErrNotFound) || errs[1] != nil {
		t.Errorf("read %v", errs)
	}
	if err := s.BatchPut(t.Context(), []store.Item{{Key: "lost", Bytes: []byte("x")}})[0]; err != nil {
		t.Errorf("a lost put: %v", err)
	}
	if err := s.Discard(t.Context(), "a"); err != nil {
		t.Errorf("a lost discard: %v", err)
	}
	s.Clear()
	present, err = s.BatchExist(t.Context(), []string{"a", "lost"})
	if err != nil || !slices.Equal(present, []bool{true, false}) {
		t.Errorf("present %v, %v", present, err)
	}
}

func TestDelayAndHang(t *testing.T) {
	s := filled(t)
	s.Add(Fault{Ops: Get, Delay: 30 * time.Millisecond, Times: 3})
	began := time.Now()
	if _, errs := get(t.Context(), s); errors.Join(errs...) != nil {
		t.Error(errs)
	}
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("a delayed call took %v", took)
	}
	s.Add(Fault{Ops: Get | Exist, Keys: Key("b"), Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, errs := get(ctx, s); !errors.Is(errs[1], context.DeadlineExceeded) {
		t.Errorf("a call that hangs: %v", errs)
	}
	if _, err := s.BatchExist(ctx, []string{"a", "b"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a question that hangs: %v", err)
	}
}
