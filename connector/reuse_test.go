package connector_test

import (
	"errors"
	"fmt"
	"testing"

	"ollamoon/store"
)

// reuse publishes prompts until one of their objects is at a place.
func reuse(t *testing.T, w *worker, at place) (prompt, error) {
	for range 100 {
		p := newPrompt(16)
		if _, err := w.publish(within(t), t, p); err != nil {
			return nil, err
		}
		for _, key := range w.keys(t, p) {
			got, err := placeOf(within(t), w.client, key)
			if err != nil {
				return nil, err
			}
			if got == at {
				return p, nil
			}
		}
	}
	return nil, fmt.Errorf("no object came to %+v", at)
}

// A page is removed while its descriptor is held, and its memory given to
// another page: the seal tells them apart, and the other page is not condemned.
func TestRemovedAndItsMemoryReused(t *testing.T) {
	c := steady.start(t)
	leakless(t)
	w, other := join(t, c, "tcp"), join(t, c, "tcp")
	p := newPrompt(3)
	w.mustPublish(t, p, 3)
	var tenant prompt
	w.cues.afterFirst = func() error {
		key := w.keys(t, p)[1]
		at, err := placeOf(within(t), other.client, key)
		if err != nil {
			return err
		}
		if err := other.store.Discard(within(t), key); err != nil {
			return err
		}
		tenant, err = reuse(t, other, at)
		return err
	}
	match := w.mustLoad(t, p, 1)
	w.cues.played(t)
	if !errors.Is(match.Stopped, store.ErrNotFound) {
		t.Errorf("stopped by %v", match.Stopped)
	}
	w.counted(t, map[string]int64{"foreign": 1}, 0)
	w.mustLoad(t, tenant, len(tenant)/pageTokens)
	w.mustPublish(t, p, 1)
	w.mustLoad(t, p, 3)
	w.counted(t, map[string]int64{"foreign": 1}, 0)
}

// The master restarts empty while descriptors of the old one are held, well
// within their lease, and gives their memory to other pages.
func TestMasterRestartedWithinALease(t *testing.T) {
	c := fragile.start(t)
	t.Run("during a read", func(t *testing.T) {
		leakless(t)
		w, other := join(t, c, "tcp"), join(t, c, "tcp")
		p := newPrompt(3)
		w.mustPublish(t, p, 3)
		w.cues.afterFirst = func() error {
			at, err := placeOf(within(t), other.client, w.keys(t, p)[1])
			if err != nil {
				return err
			}
			c.KillMaster()
			if err := c.StartMaster(within(t)); err != nil {
				return err
			}
			_, err = reuse(t, other, at)
			return err
		}
		match := w.mustLoad(t, p, 1)
		w.cues.played(t)
		if !errors.Is(match.Stopped, store.ErrNotFound) {
			t.Errorf("stopped by %v", match.Stopped)
		}
		if n := w.client.Stats().Renewed; n != 0 {
			t.Errorf("%d descriptors were renewed: the lease was over", n)
		}
		if got := w.Stats().Rejected["foreign"]; got < 1 || got > 2 {
			t.Errorf("rejected %v", w.Stats().Rejected)
		}
		w.mustPublish(t, p, 3)
		w.mustLoad(t, p, 3)
	})
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w := join(t, c, plane)
		p := newPrompt(3)
		w.mustPublish(t, p, 3)
		w.mustLoad(t, p, 3)
		c.KillMaster()
		if err := c.StartMaster(within(t)); err != nil {
			t.Fatal(err)
		}
		if match := w.mustLoad(t, p, 0); !errors.Is(match.Stopped, store.ErrNotFound) {
			t.Errorf("stopped by %v", match.Stopped)
		}
		w.mustPublish(t, p, 3)
		w.mustLoad(t, p, 3)
		w.counted(t, nil, 0)
	})
}
