package connector_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"ollamoon/prefix"
	"ollamoon/store"
)

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
