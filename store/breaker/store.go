package breaker

import (
	"context"

	"ollamoon/store"
)

// BatchExist implements store.Store.
func (s *Store) BatchExist(ctx context.Context, keys []string) ([]bool, error) {
	end, err := s.begin(ctx, exist)
	if err != nil {
		return nil, err
	}
	o := nothing
	defer func() { end(o, err) }()
	present, err := s.beneath.BatchExist(ctx, keys)
	o = judge(err)
	return present, err
}

// BatchPut implements store.Store.
func (s *Store) BatchPut(ctx context.Context, items []store.Item) []error {
	return s.batch(ctx, put, items, s.beneath.BatchPut)
}

// BatchGet implements store.Store.
func (s *Store) BatchGet(ctx context.Context, items []store.Item) []error {
	return s.batch(ctx, get, items, s.beneath.BatchGet)
}

func (s *Store) batch(ctx context.Context, op operation, items []store.Item, do func(context.Context, []store.Item) []error) []error {
	end, err := s.begin(ctx, op)
	if err != nil {
		return store.Errors(len(items), err)
	}
	o := nothing
	defer func() { end(o, err) }() // also when a caller's Done panics
	errs := do(ctx, items)
	o, err = judgeAll(errs)
	return errs
}

// Discard implements store.Store.
func (s *Store) Discard(ctx context.Context, key string) error {
	end, err := s.begin(ctx, discard)
	if err != nil {
		return err
	}
	o := nothing
	defer func() { end(o, err) }()
	err = s.beneath.Discard(ctx, key)
	o = judge(err)
	return err
}

// Alloc implements store.Store.
func (s *Store) Alloc(size int) (store.Buffer, error) { return s.beneath.Alloc(size) }

// Close implements store.Store: it closes the store beneath.
func (s *Store) Close() error { return s.beneath.Close() }
