package faulty

import (
	"context"
	"errors"

	"ollamoon/store"
)

// BatchExist implements store.Store.
func (s *Store) BatchExist(ctx context.Context, keys []string) ([]bool, error) {
	faults := s.match(Exist, keys)
	errs := hold(ctx, faults)
	for _, err := range errs {
		if err != nil && !errors.Is(err, errDenied) {
			return nil, err
		}
	}
	present, err := s.beneath.BatchExist(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, f := range faults {
		if f != nil {
			present[i] = (present[i] || f.Claim) && !f.Deny
		}
	}
	return present, nil
}

// BatchPut implements store.Store.
func (s *Store) BatchPut(ctx context.Context, items []store.Item) []error {
	errs := hold(ctx, s.match(Put, itemKeys(items)))
	pass(items, errs, func(items []store.Item) []error { return s.beneath.BatchPut(ctx, items) })
	for i, err := range errs {
		if errors.Is(err, errDenied) {
			errs[i] = nil
		}
	}
	return errs
}

// BatchGet implements store.Store.
func (s *Store) BatchGet(ctx context.Context, items []store.Item) []error {
	faults := s.match(Get, itemKeys(items))
	errs := hold(ctx, faults)
	changed := make([]store.Item, len(items))
	copy(changed, items)
	for i, f := range faults {
		if f == nil || f.Change == nil {
			continue
		}
		changed[i].Arrived = nil // what is changed later cannot be said to stay
		changed[i].Done = func() {
			f.Change(items[i].Bytes)
			if items[i].Done != nil {
				items[i].Done()
			}
		}
	}
	pass(changed, errs, func(items []store.Item) []error { return s.beneath.BatchGet(ctx, items) })
	for i, err := range errs {
		if errors.Is(err, errDenied) {
			errs[i] = store.ErrNotFound
		}
	}
	return errs
}

// pass calls f with the items that have no error yet, and sets their errors.
func pass(items []store.Item, errs []error, f func([]store.Item) []error) {
	var rest []store.Item
	var indices []int
	for i, err := range errs {
		if err == nil {
			rest = append(rest, items[i])
			indices = append(indices, i)
		}
	}
	if len(rest) == 0 && len(items) > 0 {
		return
	}
	for j, err := range f(rest) {
		errs[indices[j]] = err
	}
}

func itemKeys(items []store.Item) []string {
	keys := make([]string, len(items))
	for i, item := range items {
		keys[i] = item.Key
	}
	return keys
}

// Discard implements store.Store.
func (s *Store) Discard(ctx context.Context, key string) error {
	switch err := hold(ctx, s.match(Discard, []string{key}))[0]; {
	case errors.Is(err, errDenied):
		return nil
	case err != nil:
		return err
	}
	return s.beneath.Discard(ctx, key)
}

// Alloc implements store.Store. Faults do not concern it.
func (s *Store) Alloc(size int) (store.Buffer, error) { return s.beneath.Alloc(size) }

// Close implements store.Store: it closes the store beneath. Calls that hang go
// on until their contexts are done.
func (s *Store) Close() error { return s.beneath.Close() }
