package storetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"ollamoon/store"
)

func testDoneContext(t *testing.T, _ Config, s store.Store) {
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client went away"))
	expired, stop := context.WithTimeout(t.Context(), time.Nanosecond)
	defer stop()
	<-expired.Done()
	key := newKey()
	object := content(key, 5000)
	put(t, s, store.Item{Key: key, Bytes: object})
	for _, ctx := range []context.Context{cancelled, expired} {
		began := time.Now()
		other := newKey()
		if _, err := s.BatchExist(ctx, []string{key}); !errors.Is(err, ctx.Err()) {
			t.Errorf("BatchExist: %v, want %v", err, ctx.Err())
		}
		items := []store.Item{{Key: other, Bytes: object}, {Key: newKey(), Bytes: object}}
		for _, err := range oneEach(t, items, s.BatchPut(ctx, items)) {
			if !errors.Is(err, ctx.Err()) {
				t.Errorf("BatchPut: %v, want %v", err, ctx.Err())
			}
		}
		items = []store.Item{{Key: key, Bytes: make([]byte, 5000), Done: func() { t.Error("Done was called") }}}
		if err := oneEach(t, items, s.BatchGet(ctx, items))[0]; !errors.Is(err, ctx.Err()) {
			t.Errorf("BatchGet: %v, want %v", err, ctx.Err())
		}
		if err := s.Discard(ctx, key); !errors.Is(err, ctx.Err()) {
			t.Errorf("Discard: %v, want %v", err, ctx.Err())
		}
		if took := time.Since(began); took > patience/4 {
			t.Errorf("the calls took %v", took)
		}
		if exist(t, s, other)[0] {
			t.Error("a put whose context was done stored its object")
		}
	}
	holds(t, s, key, object)
}

const (
	cancelRounds = 8
	cancelItems  = 8
	cancelSize   = 1 << 20
)

// cancelAt calls f with a context that is cancelled at a moment of its usual
// duration, and fails the test when it does not return soon after.
func cancelAt(t *testing.T, usual time.Duration, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	timer := time.AfterFunc(time.Duration(rand.Float64()*1.2*float64(usual)), cancel) //nolint:gosec // a moment
	defer timer.Stop()
	began := time.Now()
	f(ctx)
	if took := time.Since(began); took > patience/4 {
		t.Errorf("a cancelled call took %v", took)
	}
}

// scribble marks buffers, all of one size, that are the caller's again; the function that it
// returns fails the test when they are written to later.
func scribble(t *testing.T, items []store.Item) (unchanged func()) {
	t.Helper()
	mark := bytes.Repeat([]byte{0xa5}, len(items[0].Bytes))
	for _, item := range items {
		copy(item.Bytes, mark)
	}
	return func() {
		t.Helper()
		for _, item := range items {
			if !bytes.Equal(item.Bytes, mark) {
				t.Error("a buffer was written to after the call")
			}
		}
	}
}

func testCancelGet(t *testing.T, _ Config, s store.Store) {
	keys := newKeys(cancelItems)
	objects := make([][]byte, len(keys))
	for i, key := range keys {
		objects[i] = content(key, cancelSize)
		put(t, s, store.Item{Key: key, Bytes: objects[i]})
	}
	items := make([]store.Item, len(keys))
	for i := range items {
		items[i] = store.Item{Key: keys[i], Bytes: make([]byte, cancelSize)}
	}
	began := time.Now()
	batchGet(t, s, items)
	usual := time.Since(began)
	for range cancelRounds {
		var errs []error
		cancelAt(t, usual, func(ctx context.Context) { errs = s.BatchGet(ctx, items) })
		for i, err := range oneEach(t, items, errs) {
			switch {
			case err == nil && !bytes.Equal(items[i].Bytes, objects[i]):
				t.Error("an item of a cancelled read has other bytes and no error")
			case err != nil && !errors.Is(err, context.Canceled):
				t.Errorf("a cancelled read: %v", err)
			}
		}
		unchanged := scribble(t, items)
		time.Sleep(10 * time.Millisecond)
		unchanged()
	}
}

func testCancelPut(t *testing.T, _ Config, s store.Store) {
	items := make([]store.Item, cancelItems)
	for i := range items {
		items[i] = store.Item{Key: newKey(), Bytes: content("usual", cancelSize)}
	}
	began := time.Now()
	put(t, s, items...)
	usual := time.Since(began)
	for range cancelRounds {
		for i := range items {
			discard(t, s, items[i].Key)
			items[i].Key = newKey()
			copy(items[i].Bytes, content(items[i].Key, cancelSize))
		}
		var errs []error
		cancelAt(t, usual, func(ctx context.Context) { errs = s.BatchPut(ctx, items) })
		unchanged := scribble(t, items)
		for i, err := range oneEach(t, items, errs) {
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled put: %v", err)
			}
			wholeOrFree(t, s, items[i].Key, err == nil)
		}
		unchanged()
	}
	for _, item := range items {
		discard(t, s, item.Key)
	}
}

// wholeOrFree fails the test unless a key has its whole object, or has none and
// can be put.
func wholeOrFree(t *testing.T, s store.Store, key string, stored bool) {
	t.Helper()
	want := content(key, cancelSize)
	for deadline := time.Now().Add(patience / 2); ; time.Sleep(50 * time.Millisecond) {
		got, err := get(t, s, key, cancelSize)
		switch {
		case err == nil:
			if !bytes.Equal(got, want) {
				t.Error("a cancelled put left other bytes")
			}
			return
		case stored || !errors.Is(err, store.ErrNotFound):
			t.Errorf("reading after a cancelled put, stored %v: %v", stored, err)
			return
		}
		err = batchPut(t, s, []store.Item{{Key: key, Bytes: want}})[0]
		if err != nil && !errors.Is(err, store.ErrExists) {
			t.Errorf("putting again after a cancelled put: %v", err)
			return
		}
		if err != nil && time.Now().After(deadline) {
			t.Error("a cancelled put left its key blocked")
			return
		}
	}
}
