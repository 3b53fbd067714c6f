package connector_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ollamoon/mooncake"
	"ollamoon/store"
)

// An owner that is killed leaves objects that are said to exist. They are read
// in vain, soon, condemned by nothing, and with another owner the same clients
// share pages again.
func TestOwnerKilled(t *testing.T) {
	c := fragile.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		settled(t, c)
		leakless(t)
		w, other := join(t, c, plane), join(t, c, plane)
		p := newPrompt(5)
		w.mustPublish(t, p, 5)
		other.mustLoad(t, p, 5)
		c.KillOwner()
		there, err := w.store.BatchExist(within(t), w.keys(t, p))
		if err != nil || slices.Contains(there, false) {
			t.Fatalf("the objects exist: %v, %v", there, err)
		}
		bounded(t, "loading", func() {
			if match := other.mustLoad(t, p, 0); !errors.Is(match.Stopped, store.ErrUnavailable) {
				t.Errorf("stopped by %v", match.Stopped)
			}
		})
		bounded(t, "publishing", func() {
			stored, err := w.publish(within(t), t, newPrompt(5))
			if stored != 0 || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull) {
				t.Errorf("stored %d, %v", stored, err)
			}
		})
		w.counted(t, nil, 0)
		other.counted(t, nil, 0)
		if err := c.StartOwner(within(t)); err != nil {
			t.Fatal(err)
		}
		// Until the master has found the dead owner out, pages still go there.
		p = newPrompt(5)
		await(t, "the new owner to be used", func() bool {
			_, err := w.publish(within(t), t, p)
			return err == nil
		})
		other.mustLoad(t, p, 5)
		if s := other.Stats(); s.PagesLookedUp != 15 || s.PagesHit != 10 {
			t.Errorf("stats %+v", s)
		}
	})
}

// A store in which everything is in use takes no more; when something is not any
// longer, it does, the refused pages too.
func TestStoreFull(t *testing.T) {
	c := tight.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w := join(t, c, plane)
		var keys []string
		fill := func(p prompt) error { // everything that is there has a lease then
			keys = append(keys, w.keys(t, p)...)
			stored, err := w.publish(within(t), t, p)
			if err != nil && (stored == 16 || !errors.Is(err, store.ErrFull)) {
				t.Fatalf("after %d pages: stored %d, %v", len(keys), stored, err)
			}
			if _, err := w.store.BatchExist(within(t), keys); err != nil {
				t.Fatal(err)
			}
			return err
		}
		var refused prompt
		for refusals := 0; refusals < 5; {
			refused = newPrompt(16)
			for refusals = 0; fill(refused) != nil && refusals < 5; refusals++ {
				time.Sleep(50 * time.Millisecond) // for what had no lease yet to be evicted
			}
			if len(keys) > 1<<14 {
				t.Fatalf("%d pages were taken", len(keys))
			}
		}
		w.publishWhenThereIsRoom(t, refused)
		w.mustLoad(t, refused, 16)
		w.counted(t, nil, 0)
	})
}

// A writer dies between the start of a put and its end. Who publishes the same
// pages does not fail, nobody reads them, and when the master gives up on the
// writer they can be published.
func TestWriterKilled(t *testing.T) {
	c := tight.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w := join(t, c, plane)
		p := newPrompt(3)
		keys := w.keys(t, p)
		object, err := sealed(w.config, w.pages(t, p)[0])
		if err != nil {
			t.Fatal(err)
		}
		w.makeRoom(t)
		thaw := freeze(t, c.OwnerPID()) // which holds the writer's data up
		begun := time.Now()
		kill := startWriter(t, c, p)
		await(t, "the writer to begin", func() bool {
			known, err := w.client.BatchQuery(within(t), keys)
			return err == nil && errors.Is(known[2].Err, mooncake.ErrNotReady)
		})
		kill()
		thaw()
		if match := w.mustLoad(t, p, 0); !errors.Is(match.Stopped, store.ErrNotFound) {
			t.Errorf("stopped by %v", match.Stopped)
		}
		putErr := w.store.BatchPut(within(t), []store.Item{{Key: keys[0], Bytes: object}})[0]
		if putErr != nil && !errors.Is(putErr, store.ErrExists) {
			t.Errorf("putting a blocked object: %v", putErr)
		}
		stored := 0
		bounded(t, "publishing", func() {
			if stored, err = w.publish(within(t), t, p); err != nil {
				t.Errorf("publishing blocked pages: %v", err)
			}
		})
		// Shared memory does not tell; and on a busy machine the time may be over.
		if plane == "tcp" && time.Since(begun) < tightDiscard && (putErr == nil || stored != 0) {
			t.Errorf("%v, and stored %d while a writer blocks them", putErr, stored)
		}
		await(t, "the pages to be published", func() bool {
			if _, err := w.publish(within(t), t, p); err != nil {
				t.Error(err)
			}
			match, err := w.load(within(t), t, p)
			return err == nil && match.Pages == 3
		})
		w.counted(t, nil, 0)
	})
}

// A writer of raw steps blocks a key as a killed one does, and the master's
// timeout frees it.
func TestPutThatOnlyBegan(t *testing.T) {
	c := tight.start(t)
	eachPlane(t, func(t *testing.T, plane string) {
		leakless(t)
		w := join(t, c, plane)
		p := newPrompt(3)
		w.makeRoom(t)
		w.mustPublish(t, p[:2*pageTokens], 2)
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

// evict outlasts the leases and fills the store twice.
func evict(t *testing.T, w *worker) error {
	time.Sleep(tightLease + tightLease/4)
	end := time.Now().Add(patience)
	for filled := 0; filled < 128; {
		_, err := w.publish(within(t), t, newPrompt(16))
		switch {
		case err == nil:
			filled++
		case !errors.Is(err, store.ErrFull) || time.Now().After(end):
			return fmt.Errorf("filling the store: %w", err)
		default:
			time.Sleep(10 * time.Millisecond)
		}
	}
	return nil
}

// A page that is evicted after the lookup, or while pages before it are read, is
// a miss.
func TestEvictedBetweenLookupAndRead(t *testing.T) {
	c := tight.start(t)
	for _, plane := range planes {
		t.Run("before the read, "+plane, func(t *testing.T) {
			leakless(t)
			w, others := join(t, c, plane), join(t, c, plane)
			p := newPrompt(4)
			w.makeRoom(t)
			w.mustPublish(t, p, 4)
			w.cues.beforeRead = func() error { return evict(t, others) }
			match := w.mustLoad(t, p, 0)
			w.cues.played(t)
			if !errors.Is(match.Stopped, store.ErrNotFound) {
				t.Errorf("stopped by %v", match.Stopped)
			}
			w.counted(t, nil, 0)
		})
	}
	t.Run("during the read", func(t *testing.T) {
		leakless(t)
		w, others := join(t, c, "tcp"), join(t, c, "tcp")
		p := newPrompt(4)
		w.makeRoom(t)
		w.mustPublish(t, p, 4)
		w.cues.afterFirst = func() error { return evict(t, others) }
		match := w.mustLoad(t, p, 1)
		w.cues.played(t)
		if !errors.Is(match.Stopped, store.ErrNotFound) {
			t.Errorf("stopped by %v", match.Stopped)
		}
		if n := w.client.Stats().Renewed; n != 3 {
			t.Errorf("%d descriptors renewed, want 3", n)
		}
		w.counted(t, nil, 0)
	})
}
