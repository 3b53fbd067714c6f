package mooncake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ollamoon/mooncake/transfer"
)

// BatchGet reads objects into the items' buffers. The result has one element an
// item: nil when the buffer holds the whole object, else what failed; the buffer's
// contents are undefined then. Nothing touches a buffer after the call.
//
// An object's bytes are those at its address while its lease held. That does not
// prove them to be the object's: a master that restarted or a forced remove gives
// memory to other objects within a lease. The caller checks what it got.
func (c *Client) BatchGet(ctx context.Context, items []Item) []error {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return repeat(len(items), err)
	}
	defer leave()
	tasks, errs := tasksOf(items)
	tasks = c.shared.get(ctx, tasks)
	g := getting{Client: c}
	var w window
	for len(tasks) > 0 {
		var now []task
		now, tasks = w.next(tasks)
		begin := time.Now()
		bytes, lease := g.window(ctx, now)
		w.adapt(bytes, time.Since(begin), lease/2)
	}
	return named("getting", items, errs)
}

// getting is one call of BatchGet.
type getting struct {
	*Client
	outage outage
}

// A read is an object to be read.
type read struct {
	task
	object Object
	asked  time.Time // no later than the lease began
}

// window reads objects whose descriptors it asks for at once. It returns the bytes
// read and the shortest lease.
func (g *getting) window(ctx context.Context, tasks []task) (int, time.Duration) {
	asked := time.Now()
	found, err := ask(ctx, g.master, objects(keysOf(tasks), g.config.Tenant))
	if err != nil {
		failAll(tasks, err)
		return 0, 0
	}
	byOwner := map[string][]*read{}
	bytes, lease := 0, longestLease
	for i, t := range tasks {
		replicas := found[i].Replicas                                                                       // of which none is to be asked more often than the others
		rand.Shuffle(len(replicas), func(a, b int) { replicas[a], replicas[b] = replicas[b], replicas[a] }) //nolint:gosec // spreads load
		r := &read{task: t, object: found[i], asked: asked}
		replicas, err := r.readable()
		if err != nil {
			*r.err = err
			continue
		}
		owner := replicas[0].Endpoint
		byOwner[owner] = append(byOwner[owner], r)
		lease = min(lease, found[i].Lease)
		bytes += len(t.item.Bytes)
	}
	parallel(byOwner, g.config.Connections, func(r *read) {
		if *r.err = g.fetch(ctx, r); *r.err == nil && r.item.Done != nil {
			r.item.Done()
		}
	})
	return bytes, lease
}

// readable returns the replicas to read from, in order, or why there are none.
func (r *read) readable() ([]Replica, error) {
	if r.object.Err != nil {
		return nil, r.object.Err
	}
	var replicas []Replica
	for _, replica := range r.object.Replicas {
		if replica.Kind != MemoryReplica || !replica.Complete || replica.Protocol != "tcp" {
			continue
		}
		if replica.Size != uint64(len(r.item.Bytes)) {
			return nil, fmt.Errorf("%w: %d bytes, the buffer has %d", ErrLength, replica.Size, len(r.item.Bytes))
		}
		replicas = append(replicas, replica)
	}
	if len(replicas) == 0 {
		return nil, fmt.Errorf("%w: %d of other kinds", ErrNoReplica, len(r.object.Replicas))
	}
	return replicas, nil
}

// fetch reads one object. It asks for its descriptor again, once, when half of the
// lease has passed before the read, or all of it during the read, or when the
// owner knows of no memory at that address.
func (g *getting) fetch(ctx context.Context, r *read) error {
	renewed := time.Since(r.asked) > r.object.Lease/2
	if renewed {
		if err := g.renew(ctx, r); err != nil {
			return err
		}
	}
	err := g.fromReplicas(ctx, r)
	stale := errors.Is(err, ErrLeaseExpired) || errors.Is(err, transfer.ErrRejected)
	if !stale || renewed || ctx.Err() != nil {
		return err
	}
	if err := g.renew(ctx, r); err != nil {
		return err
	}
	return g.fromReplicas(ctx, r)
}

func (g *getting) renew(ctx context.Context, r *read) error {
	g.counters.renewed.Add(1)
	r.asked = time.Now()
	found, err := ask(ctx, g.master, objects([]string{r.item.Key}, g.config.Tenant))
	if err != nil {
		return err
	}
	r.object = found[0]
	return nil
}

// fromReplicas reads the object from the first of its replicas that can be read.
func (g *getting) fromReplicas(ctx context.Context, r *read) error {
	replicas, err := r.readable()
	if err != nil {
		return err
	}
	for i, replica := range replicas {
		if i > 0 {
			g.counters.rerouted.Add(1)
		}
		if err = g.fromReplica(ctx, r, replica); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

func (g *getting) fromReplica(ctx context.Context, r *read, replica Replica) error {
	if err := g.outage.of(replica.Endpoint); err != nil {
		return err
	}
	if err := g.pool.ReadNoting(ctx, replica.Endpoint, replica.Address, r.item.Bytes, r.item.Arrived); err != nil {
		return g.outage.note(ctx, replica.Endpoint, err)
	}
	if took := time.Since(r.asked); took > r.object.Lease {
		return fmt.Errorf("%w: %v after it was granted, it is %v", ErrLeaseExpired, took, r.object.Lease)
	}
	g.counters.tcp.read(len(r.item.Bytes))
	return nil
}
