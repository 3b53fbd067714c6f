package mooncake

import (
	"context"
	"errors"
	"fmt"

	"ollamoon/mooncake/shm"
)

// errOtherStore: a mooncake_client of this machine is one of another store.
var errOtherStore = errors.New("mooncake: the process serves another store or tenant")

// A probe is an object by which a process shows that it serves the store of this
// client's master and tenant: it has to find it.
type probe struct {
	client *Client
	id     writerID
	key    string
	whole  bool // put, to its end
}

// newProbe puts a probe, which is the last to be evicted and gets a lease besides.
// No data is written, as one byte of any value will do.
func (s *sharedMemory) newProbe(ctx context.Context) (*probe, error) {
	id := newWriterID()
	p := &probe{client: s.client, id: id, key: fmt.Sprintf("ollamoon/probe/%016x%016x", id[0], id[1])}
	err := p.put(ctx)
	if err == nil {
		_, err = ask(ctx, s.client.master, exist([]string{p.key}, s.client.config.Tenant))
	}
	if err != nil {
		p.remove(ctx)
		return nil, fmt.Errorf("putting a probe: %w", err)
	}
	return p, nil
}

func (p *probe) put(ctx context.Context) error {
	m, tenant, keys := p.client.master, p.client.config.Tenant, []string{p.key}
	started, err := ask(ctx, m, putStart(p.id, keys, []uint64{1}, &ReplicateConfig{SoftPin: true}, tenant))
	if err != nil {
		return err
	}
	if err := started[0].err; err != nil {
		return err
	}
	ended, err := ask(ctx, m, putEnd(p.id, keys, tenant))
	if err != nil {
		return err
	}
	p.whole = ended[0] == nil
	return ended[0]
}

// find returns nil when the process of the session finds the probe.
func (p *probe) find(ctx context.Context, session *shm.Session) error {
	buffer, err := session.Alloc(1)
	if err != nil {
		return err
	}
	defer buffer.Free()
	results, err := session.Get(ctx, []shm.Item{{Key: p.key, Bytes: buffer.Bytes()}})
	if err != nil {
		return err
	}
	switch err := codeError(int32(results[0].Code)); {
	case errors.Is(err, ErrNotFound):
		return fmt.Errorf("%w: %w", errOtherStore, err)
	case err != nil:
		return fmt.Errorf("reading a probe: %w", err)
	}
	return nil
}

// remove takes the probe away, also when ctx has ended.
func (p *probe) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.client.config.CallTimeout)
	defer cancel()
	m, tenant, keys := p.client.master, p.client.config.Tenant, []string{p.key}
	if !p.whole {
		_, _ = ask(ctx, m, putRevoke(p.id, keys, tenant)) // of no use if it has ended after all
	}
	_, _ = ask(ctx, m, remove(keys, true, tenant))
}
