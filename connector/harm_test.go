package connector_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ollamoon/mooncake"
	"ollamoon/mooncake/rpc"
	"ollamoon/mooncake/transfer"
	"ollamoon/page"
)

// A vandal does to a soak's store what a store must not do, and what anyone who
// reaches it can.
type vandal struct {
	*soak
	r      *rand.Rand
	client *mooncake.Client
	pool   *transfer.Pool
	raw    *rawWriter
	places []place // where objects were, now or earlier
}

// harm works until ctx ends.
func (s *soak) harm(ctx context.Context, t *testing.T) {
	st, err := open(ctx, s.cluster, "tcp")
	if err != nil {
		t.Errorf("dialling: %v", err)
		return
	}
	defer func() { _ = st.Close() }()
	v := &vandal{
		soak: s, r: rand.New(rand.NewPCG(7, 7)), client: st.Client(),
		pool: transfer.NewPool(transfer.P2PHandshake(), transfer.Options{}),
		raw:  &rawWriter{conn: rpc.New(s.cluster.Master(), rpc.Options{}), id: [2]uint64{7, 7}, old: st.Client().WireVersion() == "0.3.11"},
	}
	defer v.pool.Close()
	defer func() { _ = v.raw.conn.Close() }()
	deeds := v.deeds()
	for ctx.Err() == nil {
		deed := deeds[v.r.IntN(len(deeds))]
		call, cancel := context.WithTimeout(ctx, soakCall)
		err := deed.do(call, v.key())
		cancel()
		if err == nil {
			s.mu.Lock()
			s.mu.damage[deed.name]++
			s.mu.Unlock()
		}
		pause(ctx, 4*time.Millisecond)
	}
}

// A deed is one kind of harm, to the object of a key.
type deed struct {
	name string
	do   func(ctx context.Context, key string) error
}

func (v *vandal) deeds() []deed {
	return []deed{
		{"removed by force", v.remove},
		{"removed", func(ctx context.Context, _ string) error { return v.removeUnleased(ctx) }},
		{"bits flipped", v.flip},
		{"overwritten by an old descriptor", v.overwrite},
		{"replaced by noise", func(ctx context.Context, key string) error {
			return replace(ctx, v.client, key, v.noise(soakPageBytes+page.TrailerBytes))
		}},
		{"replaced by another page", v.swap},
		{"replaced by another length", func(ctx context.Context, key string) error {
			return replace(ctx, v.client, key, v.noise(soakPageBytes+page.TrailerBytes-1+2*v.r.IntN(2)))
		}},
		{"put without data", v.dataless},
	}
}

// key is one of those that are asked for more often.
func (v *vandal) key() string {
	keys := v.keys[int(v.r.Float64()*v.r.Float64()*soakPrompts)]
	return keys[v.r.IntN(len(keys))]
}

func (v *vandal) noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%032d", v.r.Uint64()))).Read(b)
	return b
}

func (v *vandal) remove(ctx context.Context, key string) error {
	return v.client.BatchRemove(ctx, []string{key}, true)[0]
}

// removeUnleased removes those of some objects that nobody has asked for in a
// while, which are few.
func (v *vandal) removeUnleased(ctx context.Context) error {
	keys := make([]string, 16)
	for i := range keys {
		keys[i] = v.key()
	}
	if errs := v.client.BatchRemove(ctx, keys, false); !slices.Contains(errs, nil) {
		return errNothing
	}
	return nil
}

// where returns an object's place, and keeps it for later.
func (v *vandal) where(ctx context.Context, key string) (place, error) {
	at, err := placeOf(ctx, v.client, key)
	if err == nil && len(v.places) < 50 {
		v.places = append(v.places, at)
	} else if err == nil {
		v.places[v.r.IntN(len(v.places))] = at
	}
	return at, err
}

// flip changes some bytes of an object in its owner's memory.
func (v *vandal) flip(ctx context.Context, key string) error {
	at, err := v.where(ctx, key)
	if err != nil {
		return err
	}
	n := 1 + v.r.Uint64N(at.size)
	return v.pool.Write(ctx, at.endpoint, at.address+v.r.Uint64N(at.size-n+1), v.noise(int(n))) //nolint:gosec // within the object
}

// overwrite writes a page with a good seal where some object is or was: as a
// writer does whose put was given up.
func (v *vandal) overwrite(ctx context.Context, _ string) error {
	if len(v.places) == 0 {
		return errNothing
	}
	at := v.places[v.r.IntN(len(v.places))]
	object, err := v.object(v.r.IntN(soakPrompts), v.r.IntN(soakPages))
	if err != nil {
		return err
	}
	return v.pool.Write(ctx, at.endpoint, at.address, object)
}

var errNothing = errors.New("nothing to do harm to")

// object returns a page as its publisher seals it.
func (v *vandal) object(prompt, i int) ([]byte, error) {
	config := pagesOf(soakPageBytes)
	pages, err := config.Keys.Pages(v.prompts[prompt])
	if err != nil {
		return nil, err
	}
	return sealed(config, pages[i])
}

// swap puts another prompt's page under a key.
func (v *vandal) swap(ctx context.Context, key string) error {
	object, err := v.object(v.r.IntN(soakPrompts), v.r.IntN(soakPages))
	if err != nil {
		return err
	}
	return replace(ctx, v.client, key, object)
}

// dataless ends a put that wrote nothing.
func (v *vandal) dataless(ctx context.Context, key string) error {
	if err := v.remove(ctx, key); err != nil && !errors.Is(err, mooncake.ErrNotFound) {
		return err
	}
	return errors.Join(v.raw.start(ctx, key, soakPageBytes+page.TrailerBytes), v.raw.end(ctx, key))
}

// restart kills the master and the owner in turn, and starts them again, until
// ctx ends. It leaves both running.
func (s *soak) restart(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		for _, program := range []struct {
			kill  func()
			start func(context.Context) error
			count func()
		}{
			{s.killMaster(ctx, t), s.cluster.StartMaster, func() { s.masters.Add(1) }},
			{s.cluster.KillOwner, s.cluster.StartOwner, func() { s.owners.Add(1) }},
		} {
			pause(ctx, 3*time.Second)
			if ctx.Err() != nil {
				return
			}
			program.kill()
			pause(ctx, 300*time.Millisecond)
			start, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // also when the soak is over
			err := program.start(start)
			cancel()
			if err != nil {
				t.Errorf("starting again: %v", err)
				return
			}
			program.count()
		}
	}
}

// killMaster returns what kills the master when that has told how much it evicted.
func (s *soak) killMaster(ctx context.Context, t *testing.T) func() {
	return func() {
		s.countEvicted(context.WithoutCancel(ctx), t)
		s.cluster.KillMaster()
	}
}

// recovered fails the test unless workers that lived through it all share pages
// again.
func (s *soak) recovered(t *testing.T, workers map[string]*worker) {
	t.Helper()
	for plane, w := range workers {
		s.retire(w)
		await(t, "the worker over "+plane, func() bool {
			p := newPrompt(soakPages)
			if _, err := w.publish(within(t), t, p); err != nil {
				return false
			}
			match, err := w.load(within(t), t, p)
			return err == nil && match.Pages == soakPages
		})
	}
}
