package connector

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/store"
)

// replace puts another object under a key, as a fault of the store would.
func replace(t *testing.T, s store.Store, key string, object []byte) {
	t.Helper()
	if err := s.Discard(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if err := s.BatchPut(t.Context(), []store.Item{{Key: key, Bytes: object}})[0]; err != nil {
		t.Fatal(err)
	}
}

// Whatever a store returns for a page that is not that page, the run ends before
// it, it is counted by reason and discarded, and once published anew it is hit.
func TestABadPageDoesNotPoisonItsKey(t *testing.T) {
	for reason, spoil := range map[string]func(c *Connector, s store.Store, good []byte) []byte{
		"sum":      func(_ *Connector, _ store.Store, good []byte) []byte { good[100] ^= 1; return good },
		"unsealed": func(_ *Connector, _ store.Store, good []byte) []byte { return make([]byte, len(good)) },
		"length":   func(_ *Connector, _ store.Store, good []byte) []byte { return good[:len(good)-1] },
		"foreign": func(c *Connector, _ store.Store, good []byte) []byte {
			_ = c.config.Sealer.Seal(good, page.ID{Hash: prefix.Hash{9}})
			return good
		},
	} {
		t.Run(reason, func(t *testing.T) {
			s := newMemory(t)
			c := connect(t, s, config(Mixed))
			tokens, pages := prompt(32, 32), buffers(c, 4)
			publish(t, c, tokens, pages, 4)
			for _, i := range []int{1, 3} {
				replace(t, s, keyOf(t, c, tokens, i), spoil(c, s, bytes.Clone(pages[i])))
			}
			match := loaded(t, c, tokens, pages, 1)
			if want := map[bool]error{true: store.ErrLength, false: page.ErrSeal}[reason == "length"]; !errors.Is(match.Stopped, want) {
				t.Errorf("stopped by %v, want %v", match.Stopped, want)
			}
			stats := c.Stats()
			if len(stats.Rejected) != 1 || stats.Rejected[reason] != 2 || stats.PagesDiscarded != 2 {
				t.Errorf("stats %+v", stats)
			}
			publish(t, c, tokens, pages, 2)
			loaded(t, c, tokens, pages, 4)
		})
	}
}

// flaky is a store of which single calls can be given other outcomes.
type flaky struct {
	store.Store
	exist func([]string) ([]bool, error)
	put   func(context.Context, []store.Item) []error
	get   func(context.Context, []store.Item) []error
}

func (f *flaky) BatchExist(ctx context.Context, keys []string) ([]bool, error) {
	if f.exist != nil {
		return f.exist(keys)
	}
	return f.Store.BatchExist(ctx, keys)
}

func (f *flaky) BatchPut(ctx context.Context, items []store.Item) []error {
	if f.put != nil {
		return f.put(ctx, items)
	}
	return f.Store.BatchPut(ctx, items)
}

func (f *flaky) BatchGet(ctx context.Context, items []store.Item) []error {
	if f.get != nil {
		return f.get(ctx, items)
	}
	return f.Store.BatchGet(ctx, items)
}

// A page read from memory that had changed hands is read again, and is not
// discarded when it is good then.
func TestABadReadOfAGoodPageIsReadAgain(t *testing.T) {
	f := &flaky{Store: newMemory(t)}
	c := connect(t, f, config(Mixed))
	tokens, pages := prompt(32, 32), buffers(c, 4)
	publish(t, c, tokens, pages, 4)
	reads := 0
	// The change is made before anything is checked.
	f.get = func(ctx context.Context, items []store.Item) []error {
		reads++
		done := items
		items = append([]store.Item(nil), items...)
		for i := range items {
			items[i].Done = nil
		}
		errs := f.Store.BatchGet(ctx, items)
		if reads == 1 {
			items[2].Bytes[5]++
		}
		for _, item := range done {
			if item.Done != nil {
				item.Done()
			}
		}
		return errs
	}
	loaded(t, c, tokens, pages, 4)
	if stats := c.Stats(); reads != 2 || stats.Rejected["sum"] != 1 || stats.PagesDiscarded != 0 {
		t.Errorf("%d reads, stats %+v", reads, stats)
	}
}
