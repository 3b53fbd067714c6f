package mooncake

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/internal/cluster"
)

// Of those who put one key at the same time, one succeeds, and its object is what
// everyone reads; also when they share a client.
func TestManyPutOneKey(t *testing.T) {
	store := latest.store(t)
	clients := []*Client{dial(t, store), dial(t, store)}
	for range 20 {
		const writers = 6
		key := names(t, 1)[0]
		var put [writers]Item
		var errs [writers]error
		var all sync.WaitGroup
		for i := range writers {
			put[i] = Item{Key: key, Bytes: random(100_000)}
			all.Go(func() { errs[i] = clients[i%len(clients)].BatchPut(within(t), put[i:i+1])[0] })
		}
		all.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case !errors.Is(err, ErrExists):
				t.Errorf("writer %d, after %d won: %v", i, winner, err)
			}
		}
		if winner < 0 {
			t.Fatal("nobody won")
		}
		tidy(t, clients[0], put[:1])
		holds(t, clients[0], put[winner:winner+1])
	}
}

// numbered is an object that says which it is in every eight bytes.
func numbered(size, number int) []byte {
	b := make([]byte, 0, size)
	for len(b) < size {
		b = binary.LittleEndian.AppendUint64(b, uint64(number)) //nolint:gosec // small
	}
	return b[:size]
}

// Clients that put, get, cancel and remove the same keys over both planes get
// objects, or errors that say what happened. Which bytes a get has while its object
// is removed by force is not promised.
func TestEverythingAtOnce(t *testing.T) {
	const keys, workers, rounds, size = 40, 6, 120, 50_000
	store := latest.own(t, cluster.Config{SegmentBytes: 64 << 20})
	prefix := names(t, 1)[0]
	var hits, puts atomic.Int64
	var all sync.WaitGroup
	for w := range workers {
		mode := sharedMemoryOff
		if w%2 == 1 {
			mode = store.Owner()
		}
		c := dial(t, store, over(mode))
		all.Go(func() {
			for range rounds {
				items := make([]Item, 4)
				for i, n := range rand.Perm(keys)[:len(items)] {
					items[i] = Item{Key: fmt.Sprint(prefix, n), Bytes: numbered(size, n)}
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if rand.IntN(4) == 0 {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rand.IntN(2000))*time.Microsecond)
				}
				switch rand.IntN(5) {
				case 0:
					for i, err := range c.BatchRemove(ctx, keysIn(items), true) {
						expect(t, ctx, "remove", items[i].Key, err, ErrNotFound, ErrBusy)
					}
				case 1, 2:
					for i, err := range c.BatchPut(ctx, items) {
						expect(t, ctx, "put", items[i].Key, err, ErrExists)
						if err == nil {
							puts.Add(1)
						}
					}
				default:
					got := blanks(items)
					for i, err := range c.BatchGet(ctx, got) {
						expect(t, ctx, "get", items[i].Key, err, ErrNotFound)
						if err == nil && bytes.Equal(got[i].Bytes, items[i].Bytes) {
							hits.Add(1)
						}
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
	if hits.Load() == 0 || puts.Load() == 0 {
		t.Errorf("%d hits, %d puts", hits.Load(), puts.Load())
	}
}

// expect fails the test for an error that is neither nil, nor one of those, nor
// the context's.
func expect(t *testing.T, ctx context.Context, what, key string, err error, allowed ...error) { //nolint:revive // t is first in tests
	t.Helper()
	if err == nil || ctx.Err() != nil {
		return
	}
	// A deadline that is taken from the context may pass a moment before it.
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < time.Second && errors.Is(err, context.DeadlineExceeded) {
		return
	}
	for _, a := range allowed {
		if errors.Is(err, a) {
			return
		}
	}
	t.Errorf("%s %q: %v", what, key, err)
}

// A master that hangs costs the call's timeout, not for ever.
func TestMasterHangs(t *testing.T) {
	store := latest.own(t, cluster.Config{})
	c := dial(t, store, func(config *Config) { config.CallTimeout = 500 * time.Millisecond })
	put := objectsOf(t, 1000)
	none(t, "put", c.BatchPut(within(t), put))
	thaw := freeze(t, store.MasterPID())
	other := objectsOf(t, 1000)
	timed(t, "calls", soon, func() {
		_, err := c.BatchExist(within(t), keysIn(put))
		for i, err := range []error{err, c.BatchPut(within(t), other)[0], c.BatchGet(within(t), blanks(put))[0], c.Health(within(t))} {
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	})
	thaw()
	holds(t, c, put)
}
