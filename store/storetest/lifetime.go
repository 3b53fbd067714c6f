package storetest

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/store"
)

func testAlloc(t *testing.T, _ Config, s store.Store) {
	for _, size := range []int{0, -1} {
		if b, err := s.Alloc(size); err == nil {
			b.Free()
			t.Errorf("a buffer of %d bytes was given", size)
		}
	}
	for _, size := range []int{1, 4096, 100001, pageBytes, 4096, pageBytes} {
		b, err := s.Alloc(size)
		if err != nil {
			t.Fatalf("a buffer of %d bytes: %v", size, err)
		}
		if len(b.Bytes()) != size || cap(b.Bytes()) != size {
			t.Errorf("a buffer of %d bytes has %d of %d", size, len(b.Bytes()), cap(b.Bytes()))
		}
		key := newKey()
		object := content(key, size)
		copy(b.Bytes(), object)
		put(t, s, store.Item{Key: key, Bytes: b.Bytes()})
		clear(b.Bytes())
		if err := batchGet(t, s, []store.Item{{Key: key, Bytes: b.Bytes()}})[0]; err != nil {
			t.Errorf("reading into a buffer of %d bytes: %v", size, err)
		}
		if !bytes.Equal(b.Bytes(), object) {
			t.Errorf("a buffer of %d bytes came back with other bytes", size)
		}
		b.Free()
		b.Free()
		discard(t, s, key)
	}
	testDoubleFree(t, s)
}

// A second Free must not give away memory that is someone else's by then.
func testDoubleFree(t *testing.T, s store.Store) {
	first, err := s.Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	first.Free()
	second, err := s.Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Free()
	first.Free()
	third, err := s.Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Free()
	copy(second.Bytes(), content("second", 5000))
	copy(third.Bytes(), content("third", 5000))
	if !bytes.Equal(second.Bytes(), content("second", 5000)) {
		t.Error("two buffers share memory")
	}
}

func testClose(t *testing.T, _ Config, s store.Store) {
	const callers, size = 4, 1 << 20
	keys := newKeys(callers)
	buffers := make([][]store.Item, callers)
	var closed atomic.Bool
	working := func() { // in the middle of a call
		time.Sleep(2 * time.Millisecond)
		if closed.Load() {
			t.Error("a call went on after Close")
		}
	}
	for i, key := range keys {
		put(t, s, store.Item{Key: key, Bytes: content(key, size)})
		for range 8 {
			buffers[i] = append(buffers[i], store.Item{Key: key, Bytes: make([]byte, size), Done: working})
		}
	}
	ctx := within(t)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for {
				for j, err := range s.BatchGet(ctx, buffers[i]) {
					if errors.Is(err, store.ErrClosed) {
						return
					}
					if err != nil {
						t.Errorf("reading while the store closes: item %d, %v", j, err)
						return
					}
				}
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	began := time.Now()
	closeStore(t, s)
	closed.Store(true)
	if took := time.Since(began); took > patience/4 {
		t.Errorf("Close took %v", took)
	}
	all.Wait()
	for i := range callers {
		unchanged := scribble(t, buffers[i])
		defer unchanged()
	}
	time.Sleep(20 * time.Millisecond)
}

func testClosed(t *testing.T, _ Config, s store.Store) {
	b, err := s.Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { closeStore(t, s) })
	}
	all.Wait()
	closeStore(t, s)

	// Buffers are still their owner's.
	copy(b.Bytes(), content("kept", 5000))
	if !bytes.Equal(b.Bytes(), content("kept", 5000)) {
		t.Error("a buffer lost its bytes at Close")
	}
	defer b.Free()

	if _, err := s.BatchExist(within(t), newKeys(1)); !errors.Is(err, store.ErrClosed) {
		t.Errorf("BatchExist: %v", err)
	}
	items := []store.Item{{Key: newKey(), Bytes: b.Bytes()}, {Key: newKey(), Bytes: b.Bytes()}}
	matches(t, "BatchPut", batchPut(t, s, items), store.ErrClosed, store.ErrClosed)
	matches(t, "BatchGet", batchGet(t, s, items), store.ErrClosed, store.ErrClosed)
	if err := s.Discard(within(t), newKey()); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Discard: %v", err)
	}
	if _, err := s.Alloc(1); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Alloc: %v", err)
	}
}
