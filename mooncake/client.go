package mooncake

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"

	"ollamoon/mooncake/rpc"
	"ollamoon/mooncake/transfer"
)

// A Client is a client of one store. Its methods are safe for concurrent use.
type Client struct {
	config   Config
	id       writerID // of Ping
	master   *master
	pool     *transfer.Pool
	shared   sharedMemory
	counters counters

	closing context.Context // done, with ErrClosed, when Close begins
	close   context.CancelCauseFunc
	calls   sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
	}
}

// An Item is a key and the buffer that holds its object, or is to receive it.
type Item struct {
	Key   string
	Bytes []byte
	// Arrived, if not nil, may be called by BatchGet as the object comes: the first
	// n bytes of Bytes are there and stay as they are. A read that begins anew says
	// so with 0. Calls for one item follow one another, and end before Done.
	Arrived func(n int)
	// Done, if not nil, is called by BatchGet at most once, when Bytes holds the
	// whole object, and before the call returns. Calls come from several
	// goroutines, in any order; a slow one delays other reads.
	Done func()
}

// Dial connects to a store's master and finds out which version it speaks. Owners
// of segments are connected to when objects are.
//
// Its errors wrap ErrArgument or ErrUnsupported for a Config that cannot work,
// ErrWireVersion, ErrUnavailable, or are the context's.
func Dial(ctx context.Context, config Config) (*Client, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("dialling: %w", err)
	}
	conn := rpc.New(config.Master, rpc.Options{ConnectTimeout: config.ConnectTimeout, Timeout: config.CallTimeout})
	m := &master{conn: conn, tenant: config.Tenant}
	if _, err := m.version(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("dialling: %w", err)
	}
	resolver := transfer.P2PHandshake()
	if config.Metadata != p2pHandshake {
		resolver = transfer.HTTPMetadata(config.Metadata)
	}
	c := &Client{config: config, id: newWriterID(), master: m}
	c.pool = transfer.NewPool(resolver, transfer.Options{
		Connections:  config.Connections,
		DialTimeout:  config.ConnectTimeout,
		StallTimeout: config.StallTimeout,
	})
	c.closing, c.close = context.WithCancelCause(context.Background())
	c.shared.client = c
	if err := c.shared.start(ctx); err != nil {
		_ = c.Close() //nolint:contextcheck // takes its own time
		return nil, fmt.Errorf("dialling: %w", err)
	}
	return c, nil
}

func newWriterID() writerID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // does not fail
	return writerID{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

// enter begins a call: the context it returns is also done, with ErrClosed as its
// cause, when the Client closes. Who entered must leave.
func (c *Client) enter(ctx context.Context) (context.Context, func(), error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx) // nothing may happen for it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return nil, nil, ErrClosed
	}
	c.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.closing, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		c.calls.Done()
	}, nil
}

// Close ends calls in progress, which return ErrClosed, waits for them, and closes
// all connections. Puts in progress are revoked first.
func (c *Client) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.close(ErrClosed)
	c.calls.Wait()
	c.shared.close()
	c.pool.Close()
	return c.master.conn.Close()
}

// WireVersion returns the version of the protocol that the master was last found
// to speak, such as "0.3.13": the first release that speaks it.
func (c *Client) WireVersion() string {
	if v := c.master.spoken.Load(); v != nil {
		return v.name
	}
	return ""
}

// BatchExist reports for each key whether its object is there and complete, and
// gives those that are a lease. An error means that nothing is known of any.
func (c *Client) BatchExist(ctx context.Context, keys []string) ([]bool, error) {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	exists := make([]bool, 0, len(keys))
	for part := range chunks(keys) {
		results, err := ask(ctx, c.master, exist(part, c.config.Tenant))
		if err != nil {
			return nil, fmt.Errorf("asking for %d keys: %w", len(keys), err)
		}
		for i, r := range results {
			if r.err != nil {
				return nil, fmt.Errorf("asking for %q: %w", part[i], r.err)
			}
			exists = append(exists, r.value)
		}
	}
	return exists, nil
}

// BatchQuery returns what the master knows of each key, and gives the objects
// that are there a lease. An error means that nothing is known of any.
func (c *Client) BatchQuery(ctx context.Context, keys []string) ([]Object, error) {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	all := make([]Object, 0, len(keys))
	for part := range chunks(keys) {
		results, err := ask(ctx, c.master, objects(part, c.config.Tenant))
		if err != nil {
			return nil, fmt.Errorf("querying %d keys: %w", len(keys), err)
		}
		all = append(all, results...)
	}
	return all, nil
}

// BatchRemove removes objects. Without force, one with a lease stays, and that is
// ErrLeased; with it, only one that is being written (ErrNotReady) or copied
// (ErrBusy) does. The result has one element a key.
func (c *Client) BatchRemove(ctx context.Context, keys []string, force bool) []error {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return repeat(len(keys), err)
	}
	defer leave()
	errs := make([]error, 0, len(keys))
	for part := range chunks(keys) {
		results, err := ask(ctx, c.master, remove(part, force, c.config.Tenant))
		if err != nil {
			results = repeat(len(part), err)
		}
		for i, err := range results {
			if err != nil {
				err = fmt.Errorf("removing %q: %w", part[i], err)
			}
			errs = append(errs, err)
		}
	}
	return errs
}

// Warm connects to the owners of the keys' objects, so that the first read does
// not wait for that. Owners that cannot be reached are an error, which may be
// ignored.
func (c *Client) Warm(ctx context.Context, keys []string) error {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	known, err := c.BatchQuery(ctx, keys)
	if err != nil {
		return err
	}
	owners := map[string][]string{}
	for _, o := range known {
		for _, r := range o.Replicas {
			if r.Kind == MemoryReplica {
				owners[r.Endpoint] = []string{r.Endpoint}
			}
		}
	}
	var out outage
	parallel(owners, 1, func(endpoint string) {
		if err := c.pool.Warm(ctx, endpoint); err != nil {
			_ = out.note(ctx, endpoint, err)
		}
	})
	return out.any()
}

// Health asks the master whether it serves. It does not ask the owners.
func (c *Client) Health(ctx context.Context) error {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := ask(ctx, c.master, serviceReady()); err != nil {
		return fmt.Errorf("asking whether the master is ready: %w", err)
	}
	return nil
}

// Ping sends a sign of life to the master, as an owner of segments does. Nothing
// here depends on it.
func (c *Client) Ping(ctx context.Context) error {
	ctx, leave, err := c.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := ask(ctx, c.master, ping(c.id)); err != nil {
		return fmt.Errorf("pinging the master: %w", err)
	}
	return nil
}
