package transfer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// cacheEntries bounds how many endpoints are remembered.
	cacheEntries = 1024
	// cacheAge bounds how long: a port that an owner gave up may become that of
	// another one.
	cacheAge = 30 * time.Second
)

// A cache remembers what a Resolver answered.
type cache struct {
	resolver Resolver
	asked    atomic.Int64
	mu       struct {
		sync.Mutex
		entries map[string]cacheEntry
	}
}

type cacheEntry struct {
	target Target
	since  time.Time
}

func (c *cache) resolve(ctx context.Context, endpoint string) (Target, error) {
	c.mu.Lock()
	e, ok := c.mu.entries[endpoint]
	c.mu.Unlock()
	if ok && time.Since(e.since) < cacheAge {
		return e.target, nil
	}
	return c.renew(ctx, endpoint)
}

// renew asks the resolver, whatever is remembered.
func (c *cache) renew(ctx context.Context, endpoint string) (Target, error) {
	c.asked.Add(1)
	target, err := c.resolver.Resolve(ctx, endpoint)
	if err != nil {
		c.forget(endpoint)
		return Target{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.entries == nil || len(c.mu.entries) >= cacheEntries {
		// Asking for all of them again is cheap, and so many owners are rare.
		c.mu.entries = make(map[string]cacheEntry)
	}
	c.mu.entries[endpoint] = cacheEntry{target: target, since: time.Now()}
	return target, nil
}

func (c *cache) forget(endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.entries, endpoint)
}
