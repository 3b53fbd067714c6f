package open

import (
	"context"
	"fmt"

	"ollamoon/store"
)

// nothing is a store that keeps nothing.
type nothing struct{}

func (nothing) BatchExist(_ context.Context, keys []string) ([]bool, error) {
	return make([]bool, len(keys)), nil
}

func (nothing) BatchPut(_ context.Context, items []store.Item) []error {
	return store.Errors(len(items), fmt.Errorf("%w: there is no store", store.ErrReadOnly))
}

func (nothing) BatchGet(_ context.Context, items []store.Item) []error {
	return store.Errors(len(items), fmt.Errorf("%w: there is no store", store.ErrNotFound))
}

func (nothing) Discard(context.Context, string) error { return nil }

func (nothing) Alloc(size int) (store.Buffer, error) {
	if size <= 0 {
		return nil, fmt.Errorf("store/open: a buffer has at least one byte, not %d", size)
	}
	return store.Memory(size), nil
}

func (nothing) Close() error { return nil }
