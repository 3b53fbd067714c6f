package mooncake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ollamoon/mooncake"
	"ollamoon/store"
)

// A Store is a store.Store over a client.
type Store struct {
	client *mooncake.Client
	closed atomic.Bool
	close  func() error // once; who comes later waits
}

// New returns a Store over a client, which Close closes.
func New(client *mooncake.Client) *Store {
	return &Store{client: client, close: sync.OnceValue(client.Close)}
}

// Open dials a store. Its errors are those of mooncake.Dial; one for a store that
// cannot be reached, or not spoken to, wraps store.ErrUnavailable.
func Open(ctx context.Context, config mooncake.Config) (*Store, error) {
	client, err := mooncake.Dial(ctx, config)
	if err != nil {
		if errors.Is(err, mooncake.ErrUnavailable) || errors.Is(err, mooncake.ErrWireVersion) {
			err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		return nil, err
	}
	return New(client), nil
}

// Client returns the client, for what the contract does not have: which plane
// serves, and counts.
func (s *Store) Client() *mooncake.Client { return s.client }

// BatchExist implements store.Store. What is there gets a lease.
func (s *Store) BatchExist(ctx context.Context, keys []string) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var good []string
	var indices []int
	for i, key := range keys {
		if store.CheckKey(key) == nil {
			good = append(good, key)
			indices = append(indices, i)
		}
	}
	found, err := s.client.BatchExist(ctx, good)
	if err != nil {
		return nil, translate(ctx, err)
	}
	present := make([]bool, len(keys))
	for j, i := range indices {
		present[i] = found[j]
	}
	return present, nil
}

// BatchPut implements store.Store.
func (s *Store) BatchPut(ctx context.Context, items []store.Item) []error {
	return s.batch(ctx, items, s.client.BatchPut)
}

// BatchGet implements store.Store.
func (s *Store) BatchGet(ctx context.Context, items []store.Item) []error {
	errs := s.batch(ctx, items, s.client.BatchGet)
	var damaged []string
	for i, err := range errs {
		if errors.Is(err, mooncake.ErrChecksum) {
			damaged = append(damaged, items[i].Key)
		}
	}
	if len(damaged) > 0 {
		s.client.BatchRemove(ctx, damaged, true) // the next reader finds what is still there
	}
	return errs
}

// batch has the client do something with the items that it may be asked for.
func (s *Store) batch(ctx context.Context, items []store.Item, do func(context.Context, []mooncake.Item) []error) []error {
	if err := ctx.Err(); err != nil {
		return store.Errors(len(items), err)
	}
	errs := make([]error, len(items))
	var good []mooncake.Item
	var indices []int
	for i, item := range items {
		if errs[i] = store.CheckItem(item); errs[i] == nil {
			good = append(good, mooncake.Item{Key: item.Key, Bytes: item.Bytes, Arrived: item.Arrived, Done: item.Done})
			indices = append(indices, i)
		}
	}
	for j, err := range do(ctx, good) {
		errs[indices[j]] = translate(ctx, err)
	}
	return errs
}

// Discard implements store.Store.
func (s *Store) Discard(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if store.CheckKey(key) != nil {
		return nil
	}
	err := translate(ctx, s.client.BatchRemove(ctx, []string{key}, true)[0])
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// Alloc implements store.Store.
func (s *Store) Alloc(size int) (store.Buffer, error) {
	if s.closed.Load() {
		return nil, fmt.Errorf("allocating %d bytes: %w", size, store.ErrClosed)
	}
	if size <= 0 {
		return nil, fmt.Errorf("store/mooncake: a buffer has at least one byte, not %d", size)
	}
	b, err := s.client.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("allocating %d bytes: %w", size, err)
	}
	return b, nil
}

// Close implements store.Store. The objects stay.
func (s *Store) Close() error {
	s.closed.Store(true)
	return s.close()
}
