package storetest

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/store"
)

var sealer = new(page.Sealer)

// sealedPage returns a page's key, ID and sealed object.
func sealedPage(t *testing.T, payload int) (string, page.ID, []byte) {
	t.Helper()
	key := newKey()
	id := page.ID{Section: page.Full}
	copy(id.Hash[:], content(key, len(prefix.Hash{})))
	object := append(content(key, payload), make([]byte, page.TrailerBytes)...)
	if err := sealer.Seal(object, id); err != nil {
		t.Fatal(err)
	}
	return key, id, object
}

func testDiscard(t *testing.T, _ Config, s store.Store) {
	discard(t, s, newKey())
	key := newKey()
	for i, size := range []int{5000, 7000, 5000} {
		object := content(key+string(rune('0'+i)), size)
		put(t, s, store.Item{Key: key, Bytes: object})
		holds(t, s, key, object)
		discard(t, s, key)
		if exist(t, s, key)[0] {
			t.Error("a discarded object is there")
		}
		if _, err := get(t, s, key, size); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("reading a discarded object: %v", err)
		}
		discard(t, s, key)
	}
}

// A reader that gets a bad page discards it, and the next publisher's page is
// what readers find.
func testBadPage(t *testing.T, c Config, s store.Store) {
	const payload = 100000
	key, id, object := sealedPage(t, payload)
	for _, offset := range []int{0, payload / 2, payload - 1, payload, payload + page.TrailerBytes - 17, payload + 10} {
		put(t, s, store.Item{Key: key, Bytes: object})
		c.Corrupt(t, s, key, offset)
		got, err := get(t, s, key, len(object))
		switch {
		case err == nil:
			if _, err := sealer.Open(got, id); !errors.Is(err, page.ErrSeal) {
				t.Errorf("offset %d: opening the changed page: %v", offset, err)
			}
			if bytes.Equal(got, object) {
				t.Fatalf("offset %d: Corrupt changed nothing", offset)
			}
		case !errors.Is(err, store.ErrNotFound):
			t.Errorf("offset %d: reading the changed page: %v", offset, err)
		}
		discard(t, s, key)
		if _, err := get(t, s, key, len(object)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("offset %d: reading the discarded page: %v", offset, err)
		}
		put(t, s, store.Item{Key: key, Bytes: object})
		got, err = get(t, s, key, len(object))
		if err != nil {
			t.Fatalf("offset %d: reading the page put again: %v", offset, err)
		}
		if _, err := sealer.Open(got, id); err != nil {
			t.Fatalf("offset %d: opening the page put again: %v", offset, err)
		}
		discard(t, s, key)
	}
}

// Readers, publishers and discarders share a few keys; whoever reads a page
// gets that page.
func testConcurrent(t *testing.T, c Config, s store.Store) {
	const pages, workers = 6, 8
	keys := make([]string, pages)
	ids := make([]page.ID, pages)
	objects := make([][]byte, pages)
	for i := range pages {
		keys[i], ids[i], objects[i] = sealedPage(t, 20000+i)
	}
	w := &workload{c: c, s: s, keys: keys, ids: ids, objects: objects}
	deadline := time.Now().Add(2 * time.Second)
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			for round := 0; time.Now().Before(deadline) && !t.Failed(); round++ {
				w.step(t, n, round)
			}
		})
	}
	all.Wait()
}

type workload struct {
	c       Config
	s       store.Store
	keys    []string
	ids     []page.ID
	objects [][]byte
}

// step is one call of worker n. It runs outside the test's goroutine, so it
// reports with Errorf only.
func (w *workload) step(t *testing.T, n, round int) {
	ctx := t.Context()
	switch (n + round) % 4 {
	case 0:
		items := make([]store.Item, len(w.keys))
		for i := range items {
			items[i] = store.Item{Key: w.keys[i], Bytes: w.objects[i]}
		}
		for _, err := range w.s.BatchPut(ctx, items) {
			if err != nil && !errors.Is(err, store.ErrExists) {
				t.Errorf("putting: %v", err)
			}
		}
	case 1:
		if err := w.s.Discard(ctx, w.keys[round%len(w.keys)]); err != nil {
			t.Errorf("discarding: %v", err)
		}
	case 2:
		if _, err := w.s.BatchExist(ctx, w.keys); err != nil {
			t.Errorf("asking: %v", err)
		}
	}
	w.read(t)
}

func (w *workload) read(t *testing.T) {
	items := make([]store.Item, len(w.keys))
	for i := range items {
		items[i] = store.Item{Key: w.keys[i], Bytes: make([]byte, len(w.objects[i]))}
	}
	for i, err := range w.s.BatchGet(t.Context(), items) {
		if err == nil {
			if _, err := sealer.Open(items[i].Bytes, w.ids[i]); err != nil && !w.c.StaleReads {
				t.Errorf("a page that was read does not open: %v", err)
			}
			continue
		}
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("reading: %v", err)
		}
	}
}
