package connector_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"ollamoon/connector"
	"ollamoon/mooncake"
	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/store"
)

// A writer of raw steps blocks a key as a killed one does, and the master's
// timeout frees it.
func TestPutThatOnlyBegan(t *testing.T) {
	c := tight.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w := join(t, c, plane)
		p := newPrompt(3)
		w.publishWhenThereIsRoom(t, p[:2*pageTokens])
		if err := newRawWriter(t, c).start(within(t), w.keys(t, p)[2], w.ObjectBytes()); err != nil {
			t.Fatal(err)
		}
		if _, err := placeOf(within(t), w.client, w.keys(t, p)[2]); !errors.Is(err, mooncake.ErrNotReady) {
			t.Fatalf("the put has not only begun: %v", err)
		}
		if match := w.mustLoad(t, p, 2); !errors.Is(match.Stopped, store.ErrNotFound) {
			t.Errorf("stopped by %v", match.Stopped)
		}
		if _, err := w.publish(within(t), t, p); err != nil {
			t.Errorf("publishing a blocked page: %v", err)
		}
		await(t, "the page to be published", func() bool {
			w.publishWhenThereIsRoom(t, p)
			match, err := w.load(within(t), t, p)
			return err == nil && match.Pages == 3
		})
		w.counted(t, nil, 0)
	})
}

// A put that ended without its data publishes what was in the memory before:
// here a page of someone else's, and nothing at all.
func TestPutThatEndedWithoutItsData(t *testing.T) {
	c := steady.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w, loader := join(t, c, plane), join(t, c, plane)
		p := newPrompt(3)
		w.mustPublish(t, p, 3)
		key := w.keys(t, p)[1]
		at, err := placeOf(within(t), w.client, key)
		if err != nil {
			t.Fatal(err)
		}
		other := newPrompt(1)
		w.mustPublish(t, other, 1)
		for reason, before := range map[string][]byte{
			"foreign":  raw(t, w.client, w.keys(t, other)[0]),
			"unsealed": make([]byte, w.ObjectBytes()),
		} {
			if err := spoil(within(t), at, 0, w.ObjectBytes(), func(b []byte) { copy(b, before) }); err != nil {
				t.Fatal(err)
			}
			if err := w.store.Discard(within(t), key); err != nil {
				t.Fatal(err)
			}
			// The master gives the memory out again.
			liar := newRawWriter(t, c)
			if err := errors.Join(liar.start(within(t), key, w.ObjectBytes()), liar.end(within(t), key)); err != nil {
				t.Fatal(err)
			}
			if got, err := placeOf(within(t), w.client, key); err != nil || got != at {
				t.Fatalf("the object without data is at %+v, not %+v: %v", got, at, err)
			}
			loader.healed(t, w, p, []int{1}, reason, page.ErrSeal)
		}
	})
}

// healed loads a prompt whose pages of these numbers are bad: the run ends before
// the first, all are counted under the reason and discarded, and the next
// publisher's pages are what every worker hits.
func (w *worker) healed(t *testing.T, publisher *worker, p prompt, bad []int, reason string, want error) {
	t.Helper()
	before := w.Stats()
	match := w.mustLoad(t, p, bad[0])
	if !errors.Is(match.Stopped, want) {
		t.Errorf("stopped by %v, want %v", match.Stopped, want)
	}
	after, n := w.Stats(), int64(len(bad))
	for r, count := range after.Rejected {
		if wanted := map[bool]int64{true: n}[r == reason]; count-before.Rejected[r] != wanted {
			t.Errorf("%d were rejected as %s, want %d", count-before.Rejected[r], r, wanted)
		}
	}
	if after.PagesDiscarded-before.PagesDiscarded != n || after.DiscardFailures != 0 || after.Rejected[reason] == 0 {
		t.Errorf("stats %+v after %+v, want %d discarded", after, before, n)
	}
	publisher.mustPublish(t, p, len(bad))
	for _, worker := range []*worker{w, publisher} {
		rejected := worker.Stats().Rejected
		worker.mustLoad(t, p, len(p)/pageTokens)
		for r, count := range worker.Stats().Rejected {
			if count != rejected[r] {
				t.Errorf("%d more were rejected as %s after the heal", count-rejected[r], r)
			}
		}
	}
}

// Whatever is in the store under a page's key, a worker that is given it rejects
// it by reason and computes that page, and later requests are clean.
func TestBadPagesInTheStore(t *testing.T) {
	c := steady.start(t)
	keyed := pagesOf(pageBytes)
	var err error
	if keyed.Sealer, err = page.NewKeyedSealer(bytes.Repeat([]byte{1}, page.KeyBytes)); err != nil {
		t.Fatal(err)
	}
	otherType := pagesOf(pageBytes)
	otherType.Keys.Model = "faults@ffeeddccbbaa99887766554433221100"
	// what returns the object that stands under the key of page i, of p.
	type object func(t *testing.T, w *worker, p prompt, i int) []byte
	good := func(t *testing.T, w *worker, p prompt, i int) []byte {
		return raw(t, w.client, w.keys(t, p)[i])
	}
	sealedBy := func(config connector.Config) object {
		return func(t *testing.T, w *worker, p prompt, i int) []byte {
			pages, err := config.Keys.Pages(p)
			if err != nil {
				t.Fatal(err)
			}
			b := make([]byte, config.PageBytes+page.TrailerBytes)
			compute(b[:config.PageBytes], pages[i].Hash)
			if err := config.Sealer.Seal(b, page.ID{Hash: pages[i].Hash}); err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	for _, bad := range []struct {
		name, reason string
		want         error
		object       object
	}{
		{"short by a byte", "length", store.ErrLength, func(t *testing.T, w *worker, p prompt, i int) []byte {
			b := good(t, w, p, i)
			return b[:len(b)-1]
		}},
		{"long by a byte", "length", store.ErrLength, func(t *testing.T, w *worker, p prompt, i int) []byte {
			return append(good(t, w, p, i), 0)
		}},
		{"without its seal", "length", store.ErrLength, func(t *testing.T, w *worker, p prompt, i int) []byte {
			return good(t, w, p, i)[:pageBytes]
		}},
		{"of half the elements' size", "length", store.ErrLength, sealedBy(pagesOf(pageBytes / 2))},
		{"of twice the elements' size", "length", store.ErrLength, sealedBy(pagesOf(2 * pageBytes))},
		{"of another type of the same size", "foreign", page.ErrForeign, sealedBy(otherType)},
		{"swapped with the next page", "foreign", page.ErrForeign, func(t *testing.T, w *worker, p prompt, i int) []byte {
			return good(t, w, p, i+1)
		}},
		{"of another request", "foreign", page.ErrForeign, func(t *testing.T, w *worker, _ prompt, i int) []byte {
			p := newPrompt(i + 1)
			w.mustPublish(t, p, i+1)
			return good(t, w, p, i)
		}},
		{"of another section", "foreign", page.ErrForeign, func(t *testing.T, w *worker, p prompt, i int) []byte {
			b := good(t, w, p, i)
			if err := w.config.Sealer.Seal(b, page.ID{Hash: w.pages(t, p)[i].Hash, Section: page.Sliding}); err != nil {
				t.Fatal(err)
			}
			return b
		}},
		{"sealed with a key", "kind", page.ErrKind, sealedBy(keyed)},
		{"torn", "sum", page.ErrSum, func(t *testing.T, w *worker, p prompt, i int) []byte {
			b := good(t, w, p, i)
			clear(b[pageBytes/2 : pageBytes])
			return b
		}},
		{"zeroes", "unsealed", page.ErrUnsealed, func(t *testing.T, w *worker, p prompt, i int) []byte {
			return make([]byte, w.ObjectBytes())
		}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			eachPlane(t, func(t *testing.T, plane string) {
				leakless(t)
				w, loader := join(t, c, plane), join(t, c, plane)
				p := newPrompt(5)
				w.mustPublish(t, p, 5)
				objects := map[int][]byte{}
				for _, i := range []int{1, 3} {
					objects[i] = bad.object(t, w, p, i)
				}
				for i, b := range objects {
					if err := replace(within(t), w.client, w.keys(t, p)[i], b); err != nil {
						t.Fatal(err)
					}
				}
				loader.healed(t, w, p, []int{1, 3}, bad.reason, bad.want)
			})
		})
	}
}

// A byte of a page is flipped in the owner's memory, in the payload, the sum or
// the rest of the seal.
func TestByteFlippedInTheOwnersMemory(t *testing.T) {
	c := steady.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w, loader := join(t, c, plane), join(t, c, plane)
		p := newPrompt(3)
		w.mustPublish(t, p, 3)
		for _, flip := range []struct {
			offset int
			reason string
		}{{0, "sum"}, {pageBytes / 2, "sum"}, {pageBytes - 1, "sum"}, {pageBytes + 50, "sum"}, {pageBytes, "unsealed"}, {pageBytes + 20, "foreign"}} {
			at, err := placeOf(within(t), w.client, w.keys(t, p)[1])
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(within(t), at, flip.offset, 1, func(b []byte) { b[0] ^= 0x10 }); err != nil {
				t.Fatal(err)
			}
			loader.healed(t, w, p, []int{1}, flip.reason, page.ErrSeal)
		}
	})
}

// Workers publish the same prefix at once, each with payloads of its own: one
// object a key, all succeed, and all read the same publisher's bytes.
func TestPublishersAtOnce(t *testing.T) {
	c := steady.start(t)
	for _, n := range []int{2, 16} {
		for name, plane := range map[string]func(i int) string{
			"tcp":           func(int) string { return planes[0] },
			"shared memory": func(int) string { return planes[1] },
			"both":          func(i int) string { return planes[i%2] },
		} {
			t.Run(map[int]string{2: "two", 16: "sixteen"}[n]+", "+name, func(t *testing.T) {
				leakless(t)
				workers := make([]*worker, n)
				for i := range workers {
					workers[i] = join(t, c, plane(i))
				}
				publishAtOnce(t, workers, name == "tcp")
			})
		}
	}
}

func publishAtOnce(t *testing.T, workers []*worker, exact bool) {
	p := newPrompt(8)
	payload := func(publisher, i int) []byte {
		b := make([]byte, pageBytes)
		compute(b, prefix.Hash([]byte(fmt.Sprintf("%-32d", publisher*100+i))))
		return b
	}
	loaded := make([][][]byte, len(workers))
	stored := make([]int, len(workers))
	var ready, all sync.WaitGroup
	ready.Add(len(workers))
	for n, w := range workers {
		published, free := w.buffers(t, 8)
		defer free()
		for i := range published {
			copy(published[i], payload(n, i))
		}
		got, free := w.buffers(t, 8)
		defer free()
		all.Go(func() {
			ready.Done()
			ready.Wait()
			var err error
			if stored[n], err = w.StoreComputedPrefix(within(t), p, published); err != nil {
				t.Errorf("publisher %d: %v", n, err)
			}
			// What others still write is not there yet.
			for range 600 {
				match, err := w.LoadCachedPrefix(within(t), p, got)
				if err != nil || match.Stopped != nil && !errors.Is(match.Stopped, store.ErrNotFound) {
					t.Errorf("publisher %d loads %+v, %v", n, match, err)
					return
				}
				if match.Pages == 8 {
					loaded[n] = got
					return
				}
			}
			t.Errorf("publisher %d never loads all", n)
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	sum := 0
	for n := range workers {
		sum += stored[n]
		workers[n].counted(t, nil, 0)
	}
	if sum < 8 || exact && sum != 8 {
		t.Errorf("%d pages were stored newly, want 8", sum)
	}
	for i, key := range workers[0].keys(t, p) {
		if _, err := placeOf(within(t), workers[0].client, key); err != nil {
			t.Errorf("not one object: %v", err)
		}
		whose := slices.IndexFunc(workers, func(w *worker) bool {
			return bytes.Equal(payload(slices.Index(workers, w), i), loaded[0][i][:pageBytes])
		})
		if whose < 0 {
			t.Errorf("page %d is no publisher's", i)
		}
		for n := range workers {
			if !bytes.Equal(loaded[n][i], loaded[0][i]) {
				t.Errorf("publisher %d has another page %d", n, i)
			}
		}
	}
}
