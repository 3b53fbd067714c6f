package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"ollamoon/connector"
	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/store"
)

// A dialer opens a store.
type dialer func(context.Context, *opening) (*connection, error)

// A client is this project's contender: the connector over a store.
type client struct {
	opening   *opening
	store     *connection
	connector *connector.Connector

	published [][]byte // A's pages
	own       [][]byte // B's pages that A does not share
	target    [][]byte // where B's pages are loaded
	buffers   []store.Buffer

	heldBefore, bufferBytes int64
}

// errPage is in the error for a page that differs from what was published.
var errPage = errors.New("not what was published")

func openClient(ctx context.Context, o *opening, dial dialer) (*client, error) {
	before, _, err := resident()
	if err != nil {
		return nil, err
	}
	sealer, err := o.sealer()
	if err != nil {
		return nil, err
	}
	s, err := dial(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &client{opening: o, store: s, heldBefore: before}
	c.connector, err = connector.New(s, connector.Config{
		Keys:      prefix.Config{Model: o.Model, PageTokens: o.PageTokens},
		PageBytes: o.PageBytes,
		Sealer:    sealer,
	})
	if err == nil {
		err = c.allocate()
	}
	if err != nil {
		return nil, errors.Join(err, c.leave())
	}
	return c, nil
}

func (o *opening) sealer() (*page.Sealer, error) {
	switch o.Seal {
	case Checksum:
		return &page.Sealer{}, nil
	case MAC:
		return page.NewKeyedSealer(o.Key)
	case NoSeal:
		return nil, nil
	}
	return nil, fmt.Errorf("bench: no seal %q; use checksum, mac or none", o.Seal)
}

// allocate gets the buffers from the store and fills with random bytes those
// that will be published.
func (c *client) allocate() error {
	random := chaCha()
	for _, b := range []struct {
		pages  *[][]byte
		count  int
		random *rand.ChaCha8
	}{
		{&c.published, c.opening.Pages, random},
		{&c.own, c.opening.Pages - c.opening.SharedPages, random},
		{&c.target, c.opening.Pages, nil},
	} {
		for range b.count {
			buffer, err := c.store.Alloc(c.connector.ObjectBytes())
			if err != nil {
				return fmt.Errorf("allocating a page: %w", err)
			}
			c.buffers = append(c.buffers, buffer)
			*b.pages = append(*b.pages, buffer.Bytes())
			c.bufferBytes += int64(len(buffer.Bytes()))
			clear(buffer.Bytes()) // touched, so that the first timing is like the others
			if b.random != nil {
				_, _ = b.random.Read(buffer.Bytes()[:c.opening.PageBytes]) // never fails
			}
		}
	}
	return nil
}

func (c *client) do(ctx context.Context, what call) (answer, error) {
	switch what.Op {
	case opPublish:
		return c.publish(ctx, what.Tokens, c.published)
	case opExtend:
		return c.publish(ctx, what.Tokens, c.requestB(c.target))
	case opRemove:
		return c.remove(ctx, what.Keys)
	case opReload:
		return c.reload(ctx, what.Tokens)
	case opClose:
		return c.close()
	}
	return answer{}, fmt.Errorf("bench: no call %q", what.Op)
}

// requestB is B's pages, the shared ones from the given buffers.
func (c *client) requestB(shared [][]byte) [][]byte {
	return append(shared[:c.opening.SharedPages:c.opening.SharedPages], c.own...)
}

func (c *client) publish(ctx context.Context, tokens []int32, pages [][]byte) (answer, error) {
	start := time.Now()
	stored, err := c.connector.StoreComputedPrefix(ctx, tokens, pages)
	return answer{MS: milliseconds(start), Pages: stored}, err
}

func (c *client) remove(ctx context.Context, keys []string) (answer, error) {
	for _, key := range keys {
		if err := c.store.Discard(ctx, key); err != nil {
			return answer{}, fmt.Errorf("removing %s: %w", key, err)
		}
	}
	return answer{}, nil
}

func (c *client) reload(ctx context.Context, tokens []int32) (answer, error) {
	for _, b := range c.target {
		clear(b)
	}
	before, err := loopbackBytes(ctx)
	if err != nil {
		return answer{}, err
	}
	start := time.Now()
	match, err := c.connector.LoadCachedPrefix(ctx, tokens, c.target)
	ms := milliseconds(start)
	if err != nil {
		return answer{}, err
	}
	after, err := loopbackBytes(ctx)
	if err != nil {
		return answer{}, err
	}
	if match.Stopped != nil && !errors.Is(match.Stopped, store.ErrNotFound) {
		return answer{}, match.Stopped
	}
	for i, want := range c.requestB(c.published)[:match.Pages] {
		if n := c.opening.PageBytes; !bytes.Equal(c.target[i][:n], want[:n]) {
			return answer{}, fmt.Errorf("page %d: %w", i, errPage)
		}
	}
	return answer{MS: ms, Pages: match.Pages, LoopbackBytes: after - before}, nil
}

// close leaves the store, having asked whether all went the way it should. What the client held is the process's peak of resident
// memory without what the process had before the store was opened, and without
// the buffers.
func (c *client) close() (answer, error) {
	_, peak, err := resident()
	if c.store.plane != nil {
		err = errors.Join(err, c.store.plane())
	}
	var held int64
	if peak > 0 {
		held = max(peak-c.heldBefore-c.bufferBytes, 1)
	}
	return answer{HeldBytes: held}, errors.Join(err, c.leave())
}

// leave closes the store and gives the buffers back, once.
func (c *client) leave() error {
	if c.store == nil {
		return nil
	}
	err := c.store.Close()
	for _, b := range c.buffers {
		b.Free()
	}
	*c = client{}
	return err
}

func milliseconds(since time.Time) float64 {
	return float64(time.Since(since).Nanoseconds()) / 1e6
}
