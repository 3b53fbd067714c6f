package mooncake

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"ollamoon/mooncake/rpc"
)

// BatchPut stores objects under keys that have none. The result has one element an
// item: nil when all replicas of the object were written, ErrExists when the key
// had an object or someone is writing it, else what failed. An object that could
// not be written whole is revoked, so that its key can be put again at once; so it
// is when ctx ends, which then takes one call to the master longer.
//
// Through shared memory, a key that someone else begins to put at the same moment
// counts as stored. When that put breaks off, and TCP finds the key taken and no
// object, that is ErrUnavailable.
//
// Nothing touches a buffer after the call.
func (c *Client) BatchPut(ctx context.Context, items []Item) []error {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return repeat(len(items), err)
	}
	defer leave()
	tasks, errs := tasksOf(items)
	tasks = c.shared.put(ctx, tasks)
	p := putting{Client: c}
	var w window
	for len(tasks) > 0 {
		var now []task
		now, tasks = w.next(tasks)
		begin := time.Now()
		bytes := p.window(ctx, now)
		w.adapt(bytes, time.Since(begin), writeLimit)
	}
	return named("putting", items, errs)
}

// writeLimit is how long the writes of a window may take. A master gives up on a
// put 30 s after its start, unless it was started with another value.
const writeLimit = 5 * time.Second

// putting is one call of BatchPut.
type putting struct {
	*Client
	outage outage
}

// A write is one replica to be written.
type write struct {
	object  *writing
	replica Replica
}

// writing is an object that the master has begun.
type writing struct {
	task
	failed atomic.Pointer[error] // why a replica was not written
}

// window puts objects that it announces at once. It returns the bytes written.
//
// The calls of a window name a writer of their own: the master lets it end and
// revoke only what it began, whatever others are doing to the same keys.
func (p *putting) window(ctx context.Context, tasks []task) int {
	id, keys := newWriterID(), keysOf(tasks)
	sizes := make([]uint64, len(tasks))
	for i, t := range tasks {
		sizes[i] = uint64(len(t.item.Bytes))
	}
	started, err := ask(ctx, p.master, putStart(id, keys, sizes, &p.config.Replicate, p.config.Tenant))
	if err != nil {
		failAll(tasks, err)
		if mayHaveRun(err) {
			p.revoke(ctx, id, keys)
		}
		return 0
	}
	p.unfinished(ctx, tasks, started)
	begun := make([]*writing, 0, len(tasks))
	byOwner := map[string][]write{}
	for i, s := range started {
		w := &writing{task: tasks[i]}
		if *w.err = s.err; s.err != nil {
			continue
		}
		begun = append(begun, w)
		if err := writable(s.value, len(w.item.Bytes)); err != nil {
			w.failed.Store(&err)
			continue
		}
		for _, replica := range s.value {
			byOwner[replica.Endpoint] = append(byOwner[replica.Endpoint], write{w, replica})
		}
	}
	parallel(byOwner, p.config.Connections, func(w write) { p.write(ctx, w) })
	return p.finish(ctx, id, begun)
}

// unfinished finds those of the tasks that exist because a put through shared
// memory began and broke off, and makes them errors that say that nothing is there.
// The master gives up on such a put by itself.
func (p *putting) unfinished(ctx context.Context, tasks []task, started []expected[[]Replica]) {
	var which []int
	var keys []string
	for i, t := range tasks {
		if t.begun && errors.Is(started[i].err, ErrExists) {
			which, keys = append(which, i), append(keys, t.item.Key)
		}
	}
	if len(which) == 0 {
		return
	}
	whole, err := ask(ctx, p.master, exist(keys, p.config.Tenant))
	for i, at := range which {
		switch {
		case err != nil:
			started[at].err = err
		case !whole[i].value:
			started[at].err = fmt.Errorf("%w: a put through shared memory broke off and blocks the key for a while", ErrUnavailable)
		}
	}
}

// mayHaveRun reports whether the master may have run a call that failed.
func mayHaveRun(err error) bool {
	var refused *rpc.ServerError
	return !errors.Is(err, rpc.ErrConnect) && !isMismatch(err) && !errors.As(err, &refused)
}

// writable returns why replicas that the master allotted cannot be written to.
func writable(replicas []Replica, size int) error {
	if len(replicas) == 0 {
		return fmt.Errorf("%w: the master allotted no replica", ErrNoSpace)
	}
	for _, r := range replicas {
		if r.Kind != MemoryReplica || r.Protocol != "tcp" {
			return fmt.Errorf("%w: the master allotted a replica in %v by protocol %q", ErrUnsupported, r.Kind, r.Protocol)
		}
		if r.Size != uint64(size) { //nolint:gosec // a length
			return fmt.Errorf("%w: the master allotted %d bytes for %d", ErrLength, r.Size, size)
		}
	}
	return nil
}

// write writes one replica, unless another one of its object has failed.
func (p *putting) write(ctx context.Context, w write) {
	if w.object.failed.Load() != nil {
		return
	}
	err := p.outage.of(w.replica.Endpoint)
	if err == nil {
		err = p.pool.Write(ctx, w.replica.Endpoint, w.replica.Address, w.object.item.Bytes)
		if err == nil {
			p.counters.tcp.wrote(len(w.object.item.Bytes))
			return
		}
		err = p.outage.note(ctx, w.replica.Endpoint, err)
	}
	w.object.failed.CompareAndSwap(nil, &err)
}

// finish ends the objects that were written and revokes the others. It returns
// the bytes of those that are stored.
func (p *putting) finish(ctx context.Context, id writerID, begun []*writing) int {
	var written, failed []task
	for _, w := range begun {
		if err := w.failed.Load(); err != nil {
			*w.err = *err
			failed = append(failed, w.task)
		} else {
			written = append(written, w.task)
		}
	}
	bytes := 0
	if len(written) > 0 {
		results, err := ask(ctx, p.master, putEnd(id, keysOf(written), p.config.Tenant))
		if err != nil {
			results = repeat(len(written), err)
		}
		for i, w := range written {
			if *w.err = endError(results[i]); results[i] != nil {
				failed = append(failed, w)
			} else {
				bytes += len(w.item.Bytes)
			}
		}
	}
	if len(failed) > 0 {
		p.revoke(ctx, id, keysOf(failed))
	}
	return bytes
}

// endError says of an object that the master does not know any more, as after its
// restart, that it is the store that failed.
func endError(err error) error {
	var code *CodeError
	if errors.As(err, &code) {
		return fmt.Errorf("%w: the master does not take the end of the put: %w", ErrUnavailable, err)
	}
	return err
}

// revoke takes back what the writer began of the keys, also when ctx has ended:
// else the keys would be blocked until the master gives up on them.
func (p *putting) revoke(ctx context.Context, id writerID, keys []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.CallTimeout)
	defer cancel()
	results, err := ask(ctx, p.master, putRevoke(id, keys, p.config.Tenant))
	if err != nil {
		p.config.Logger.WarnContext(ctx, "puts could not be revoked; their keys are blocked for a while", "keys", len(keys), "error", err)
		return
	}
	for _, err := range results {
		if err == nil {
			p.counters.revoked.Add(1)
		}
	}
}
