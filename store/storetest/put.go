package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"ollamoon/store"
)

func testPutIfAbsent(t *testing.T, _ Config, s store.Store) {
	for _, size := range []int{1, 5000, 1 << 20} {
		key := newKey()
		object := content(key, size)
		put(t, s, store.Item{Key: key, Bytes: object})
		for _, other := range []int{size, size + 1, 2 * size} {
			err := batchPut(t, s, []store.Item{{Key: key, Bytes: content(key+"other", other)}})[0]
			if !errors.Is(err, store.ErrExists) {
				t.Errorf("putting %d bytes over %d: %v", other, size, err)
			}
			holds(t, s, key, object)
		}
	}

	// What the store keeps is its own: the buffer may be used for something else.
	key := newKey()
	buffer := content(key, 5000)
	object := bytes.Clone(buffer)
	put(t, s, store.Item{Key: key, Bytes: buffer})
	clear(buffer)
	holds(t, s, key, object)
	got, err := get(t, s, key, len(object))
	if err != nil {
		t.Fatal(err)
	}
	clear(got)
	holds(t, s, key, object)
}

// publisher is one of several that put the same keys at once, with bytes of its
// own. Half of them go from the last key to the first.
func publisher(keys []string, number int) []store.Item {
	items := make([]store.Item, len(keys))
	for i, key := range keys {
		items[i] = store.Item{Key: key, Bytes: content(fmt.Sprint(number, key), 400000)}
	}
	if number%2 == 1 {
		slices.Reverse(items)
	}
	return items
}

func testPublishers(t *testing.T, c Config, s store.Store) {
	stores := []store.Store{s}
	if c.Another != nil {
		another := c.Another(t, s)
		defer closeStore(t, another)
		stores = append(stores, another)
	}
	for range 8 {
		publish(t, c, stores)
	}
}

// publish has many publishers put the same keys through some stores.
func publish(t *testing.T, c Config, stores []store.Store) {
	t.Helper()
	const publishers = 12
	keys := newKeys(4)
	batches := make([][]store.Item, publishers)
	results := make([][]error, publishers)
	var all sync.WaitGroup
	begin := make(chan struct{})
	for n := range publishers {
		batches[n] = publisher(keys, n)
		all.Go(func() {
			<-begin
			results[n] = stores[n/2%len(stores)].BatchPut(within(t), batches[n])
		})
	}
	close(begin)
	all.Wait()
	for _, key := range keys {
		var errs []error
		var objects [][]byte
		for n := range publishers {
			for i, item := range batches[n] {
				if item.Key == key {
					errs = append(errs, results[n][i])
					objects = append(objects, item.Bytes)
				}
			}
		}
		object := winner(t, c, stores[0], key, errs, objects)
		for _, each := range stores {
			holds(t, each, key, object)
		}
		discard(t, stores[0], key)
	}
}

// winner returns the object that was stored by one of several puts of a key: that
// of the one that succeeded.
func winner(t *testing.T, c Config, s store.Store, key string, errs []error, objects [][]byte) []byte {
	t.Helper()
	var stored [][]byte
	for i, err := range errs {
		if err == nil {
			stored = append(stored, objects[i])
		} else if !errors.Is(err, store.ErrExists) {
			t.Fatalf("put %d: %v", i, err)
		}
	}
	if len(stored) == 0 || len(stored) > 1 && !c.VagueExists {
		t.Fatalf("of %d puts of one key %d succeeded", len(errs), len(stored))
	}
	got, err := get(t, s, key, len(objects[0]))
	if err != nil {
		t.Fatalf("reading what several have put: %v", err)
	}
	if !slices.ContainsFunc(stored, func(object []byte) bool { return bytes.Equal(object, got) }) {
		t.Fatal("the object is that of no put that succeeded")
	}
	return got
}

func testAnother(t *testing.T, c Config, s store.Store) {
	if c.Another == nil {
		return
	}
	another := c.Another(t, s)
	key := newKey()
	object := content(key, 100000)
	put(t, s, store.Item{Key: key, Bytes: object})
	if !exist(t, another, key)[0] {
		t.Error("the other store does not have it")
	}
	holds(t, another, key, object)
	if err := batchPut(t, another, []store.Item{{Key: key, Bytes: []byte("x")}})[0]; !errors.Is(err, store.ErrExists) {
		t.Errorf("the other store puts it again: %v", err)
	}
	discard(t, another, key)
	if exist(t, s, key)[0] {
		t.Error("the object is there after the other store discarded it")
	}
	if _, err := get(t, s, key, len(object)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("reading what the other store discarded: %v", err)
	}

	// The objects are not the store's that put them.
	put(t, another, store.Item{Key: key, Bytes: object})
	closeStore(t, another)
	holds(t, s, key, object)
}
