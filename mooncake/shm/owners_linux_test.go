package shm

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"ollamoon/internal/cluster"
)

// Objects that another owner keeps come through the process too. When that owner
// is gone, the process reports a transfer that failed: such a session ends, since
// the process may have given up on one that still goes on.
func TestOtherOwnerKilled(t *testing.T) {
	c := startCluster(t, cluster.Version, cluster.Config{Owners: 2, SegmentBytes: 32 << 20})
	o := Options{Addr: c.Owners()[1]}
	configs[cluster.Version](&o)
	s, err := Open(within(t, 20*time.Second), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	const objects, size = 16, 1 << 20
	items := make([]Item, objects)
	for i := range items {
		items[i] = Item{string(rune('a' + i)), alloc(t, s, size).Bytes()}
		fillWith(items[i].Bytes, byte(i))
	}
	if _, err := s.Put(within(t, 20*time.Second), items); err != nil {
		t.Fatal(err)
	}
	for i := range items {
		clear(items[i].Bytes)
	}
	if _, err := s.Get(within(t, 20*time.Second), items); err != nil || s.Err() != nil {
		t.Fatalf("%v, %v", err, s.Err())
	}
	c.KillOwner()
	results, err := s.Get(within(t, 60*time.Second), items)
	if err != nil {
		t.Fatal(err)
	}
	good, failed := 0, 0
	for i, r := range results {
		switch {
		case r.Code == 0 && bytes.Count(items[i].Bytes, []byte{byte(i)}) == size: //nolint:gosec // small
			good++
		case !r.Code.hasEnded():
			failed++
			if s.arena.isShared(items[i].Bytes) {
				t.Errorf("%s: %d, and the memory is shared", items[i].Key, r.Code)
			}
		default:
			t.Errorf("%s: %+v", items[i].Key, r)
		}
	}
	if good == 0 || failed == 0 || !errors.Is(s.Err(), ErrSessionLost) {
		t.Errorf("%d good, %d failed, %v", good, failed, s.Err())
	}
}

func (a *arena) isShared(b []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, _, err := a.locate(b)
	return err == nil
}
