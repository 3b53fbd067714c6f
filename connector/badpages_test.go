package connector_test

import (
	"bytes"
	"errors"
	"testing"

	"ollamoon/connector"
	"ollamoon/page"
	"ollamoon/store"
)

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
			b, err := sealed(config, pages[i])
			if err != nil {
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
