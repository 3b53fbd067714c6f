package storetest

import (
	"bytes"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"ollamoon/page"
	"ollamoon/store"
)

// pageBytes is a page's object in the demo's layout, with its seal.
const pageBytes = 14680064 + page.TrailerBytes

func testEmptyBatches(t *testing.T, _ Config, s store.Store) {
	if present := exist(t, s); len(present) != 0 {
		t.Errorf("answers to no question: %v", present)
	}
	if errs := s.BatchPut(within(t), nil); len(errs) != 0 {
		t.Errorf("results of putting nothing: %v", errs)
	}
	if errs := s.BatchGet(within(t), []store.Item{}); len(errs) != 0 {
		t.Errorf("results of reading nothing: %v", errs)
	}
}

func testRoundTrips(t *testing.T, _ Config, s store.Store) {
	var items []store.Item
	var keys []string
	for _, size := range []int{
		1, 2, 7, 8, 79, 80, 81, 4095, 4096, 4097, 4096 + page.TrailerBytes, 65535, 65536, 65537,
		1<<20 - 1, 1<<20 + 1, 3 << 20, pageBytes,
	} {
		key := newKey()
		keys = append(keys, key)
		items = append(items, store.Item{Key: key, Bytes: content(key, size)})
	}
	for _, there := range exist(t, s, keys...) {
		if there {
			t.Fatal("an object is there that nobody put")
		}
	}
	put(t, s, items...)
	for i, there := range exist(t, s, keys...) {
		if !there {
			t.Errorf("an object of %d bytes is not there", len(items[i].Bytes))
		}
	}
	for _, item := range items {
		holds(t, s, item.Key, item.Bytes)
	}
	read := make([]store.Item, len(items))
	for i, item := range items {
		read[i] = store.Item{Key: item.Key, Bytes: make([]byte, len(item.Bytes))}
	}
	for i, err := range batchGet(t, s, read) {
		if err != nil || !bytes.Equal(read[i].Bytes, items[i].Bytes) {
			t.Errorf("%d bytes in a batch: %v", len(items[i].Bytes), err)
		}
	}
}

func testMissing(t *testing.T, _ Config, s store.Store) {
	if exist(t, s, newKey())[0] {
		t.Error("an object is there that nobody put")
	}
	if _, err := get(t, s, newKey(), 100); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("reading it: %v", err)
	}
}

func testLength(t *testing.T, _ Config, s store.Store) {
	for _, size := range []int{1, 100, 5000, 1<<20 + 1} {
		key := newKey()
		object := content(key, size)
		put(t, s, store.Item{Key: key, Bytes: object})
		for _, other := range []int{1, size - 1, size + 1, 2 * size, size + page.TrailerBytes} {
			if other == size || other == 0 {
				continue
			}
			if _, err := get(t, s, key, other); !errors.Is(err, store.ErrLength) {
				t.Errorf("reading %d bytes into %d: %v", size, other, err)
			}
		}
		holds(t, s, key, object)
	}
}

func testNoBytes(t *testing.T, _ Config, s store.Store) {
	absent, present := newKey(), newKey()
	put(t, s, store.Item{Key: present, Bytes: []byte("object")})
	for _, none := range [][]byte{nil, {}} {
		if err := batchPut(t, s, []store.Item{{Key: absent, Bytes: none}})[0]; !errors.Is(err, store.ErrLength) {
			t.Errorf("putting no bytes: %v", err)
		}
		if err := batchGet(t, s, []store.Item{{Key: present, Bytes: none}})[0]; !errors.Is(err, store.ErrLength) {
			t.Errorf("reading into no bytes: %v", err)
		}
	}
	if exist(t, s, absent)[0] {
		t.Error("an object without bytes is there")
	}
	put(t, s, store.Item{Key: absent, Bytes: []byte("later")})
	holds(t, s, absent, []byte("later"))
}

func testMixedBatches(t *testing.T, _ Config, s store.Store) {
	keys := newKeys(3)
	objects := [][]byte{content(keys[0], 5000), content(keys[1], 3), content(keys[2], 70000)}
	put(t, s, store.Item{Key: keys[0], Bytes: objects[0]})

	puts := []store.Item{
		{Key: keys[1], Bytes: objects[1]},
		{Key: keys[0], Bytes: []byte("not this")},
		{Key: "", Bytes: []byte("no key")},
		{Key: newKey(), Bytes: nil},
		{Key: keys[2], Bytes: objects[2]},
	}
	matches(t, "put", batchPut(t, s, puts), nil, store.ErrExists, store.ErrBadKey, store.ErrLength, nil)

	if got := exist(t, s, keys[2], newKey(), "", keys[0], keys[1]); !slices.Equal(got, []bool{true, false, false, true, true}) {
		t.Errorf("there are %v", got)
	}
	gets := []store.Item{
		{Key: newKey(), Bytes: make([]byte, 10)},
		{Key: keys[0], Bytes: make([]byte, len(objects[0]))},
		{Key: keys[1], Bytes: make([]byte, len(objects[1])+1)},
		{Key: "", Bytes: make([]byte, 1)},
		{Key: keys[2], Bytes: make([]byte, len(objects[2]))},
		{Key: keys[1], Bytes: make([]byte, len(objects[1]))},
	}
	matches(t, "get", batchGet(t, s, gets), store.ErrNotFound, nil, store.ErrLength, store.ErrBadKey, nil, nil)
	for i, object := range map[int][]byte{1: objects[0], 4: objects[2], 5: objects[1]} {
		if !bytes.Equal(gets[i].Bytes, object) {
			t.Errorf("item %d has other bytes", i)
		}
	}
}

// matches compares a batch's results with what each has to wrap.
func matches(t *testing.T, what string, got []error, want ...error) {
	t.Helper()
	for i, err := range got {
		if !errors.Is(err, want[i]) {
			t.Errorf("%s, item %d: %v, want %v", what, i, err, want[i])
		}
	}
}

func testRepeatedKeys(t *testing.T, c Config, s store.Store) {
	key := newKey()
	versions := [][]byte{content(key+"0", 9000), content(key+"1", 9000), content(key+"2", 9000)}
	puts := make([]store.Item, len(versions))
	for i := range puts {
		puts[i] = store.Item{Key: key, Bytes: versions[i]}
	}
	object := winner(t, c, s, key, batchPut(t, s, puts), versions)
	gets := make([]store.Item, 3)
	for i := range gets {
		gets[i] = store.Item{Key: key, Bytes: make([]byte, 9000)}
	}
	for i, err := range batchGet(t, s, gets) {
		if err != nil || !bytes.Equal(gets[i].Bytes, object) {
			t.Errorf("reading it, item %d: %v", i, err)
		}
	}
}

func testDone(t *testing.T, _ Config, s store.Store) {
	const present = 6
	keys := newKeys(present)
	objects := make([][]byte, present)
	for i, key := range keys {
		objects[i] = content(key, 300000+i)
		put(t, s, store.Item{Key: key, Bytes: objects[i], Done: func() { t.Error("a put called Done") }})
	}
	items := make([]store.Item, present+3)
	calls := make([]atomic.Int32, len(items))
	var returned atomic.Bool
	var mu sync.Mutex
	var wrong []int
	for i := range items {
		switch i {
		case present:
			items[i] = store.Item{Key: newKey(), Bytes: make([]byte, 10)}
		case present + 1:
			items[i] = store.Item{Key: keys[0], Bytes: make([]byte, 10)}
		case present + 2: // no Done
			items[i] = store.Item{Key: keys[0], Bytes: make([]byte, len(objects[0]))}
			continue
		default:
			items[i] = store.Item{Key: keys[i], Bytes: make([]byte, len(objects[i]))}
		}
		items[i].Done = func() {
			calls[i].Add(1)
			if returned.Load() || i >= present || !bytes.Equal(items[i].Bytes, objects[i]) {
				mu.Lock()
				defer mu.Unlock()
				wrong = append(wrong, i)
			}
		}
	}
	errs := batchGet(t, s, items)
	returned.Store(true)
	for i, err := range errs {
		want := int32(0)
		if err == nil && items[i].Done != nil {
			want = 1
		}
		if got := calls[i].Load(); got != want {
			t.Errorf("item %d, %v: Done was called %d times", i, err, got)
		}
	}
	matches(t, "get", errs, nil, nil, nil, nil, nil, nil, store.ErrNotFound, store.ErrLength, nil)
	if len(wrong) != 0 {
		t.Errorf("Done was called for items %v without their objects", wrong)
	}
}
