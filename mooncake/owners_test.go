package mooncake

import (
	"bytes"
	"slices"
	"sync"
	"testing"
	"time"

	"ollamoon/internal/cluster"
)

// The objects of one owner do not wait for another one: while that hangs, they are
// read to the last. An order of owners would be another each time, so this is done
// more than once.
func TestOwnersAreReadAtTheSameTime(t *testing.T) {
	store := latest.own(t, cluster.Config{Owners: 2, SegmentBytes: 64 << 20})
	c := dial(t, store, func(config *Config) { config.StallTimeout = patience })
	put := objectsOf(t, slices.Repeat([]int{100_000}, 40)...)
	none(t, "put", c.BatchPut(within(t), put))
	known, err := c.BatchQuery(within(t), keysIn(put))
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{} // objects, by owner
	for _, object := range known {
		if object.Err != nil || len(object.Replicas) != 1 {
			t.Fatalf("%+v", object)
		}
		of[object.Replicas[0].Endpoint]++
	}
	if len(of) != 2 {
		t.Fatalf("the objects are with %v", of)
	}
	for range 5 {
		var mu sync.Mutex
		done := map[string]int{}
		got := blanks(put)
		for i := range got {
			owner := known[i].Replicas[0].Endpoint
			got[i].Done = func() {
				mu.Lock()
				defer mu.Unlock()
				done[owner]++
			}
		}
		thaw := freeze(t, store.OwnerPID())
		result := make(chan []error, 1)
		go func() { result <- c.BatchGet(within(t), got) }()
		await(t, "the objects of one owner", func() bool {
			mu.Lock()
			defer mu.Unlock()
			for owner, n := range done {
				if n == of[owner] {
					return true
				}
			}
			return false
		})
		time.Sleep(50 * time.Millisecond) // for what must not come
		mu.Lock()
		if len(done) != 1 || len(result) != 0 {
			t.Errorf("of %v objects %v are done while an owner hangs", of, done)
		}
		mu.Unlock()
		thaw()
		none(t, "get", <-result)
		for i := range put {
			if !bytes.Equal(got[i].Bytes, put[i].Bytes) {
				t.Errorf("object %d: other bytes", i)
			}
		}
	}
}
