package metrics

import (
	"context"
	"errors"
	"time"

	"ollamoon/store"
)

// operations of a store.
var operations = []string{"exist", "get", "put", "discard"}

// failures are the kinds of what fails, the first that fits.
var failures = []struct {
	err  error
	word string
}{
	{context.DeadlineExceeded, "deadline"},
	{context.Canceled, "canceled"},
	{store.ErrUnavailable, "unavailable"},
	{store.ErrFull, "full"},
	{store.ErrReadOnly, "read_only"},
	{store.ErrLength, "length"},
	{store.ErrClosed, "closed"},
}

// otherFailure is the kind of the rest.
const otherFailure = "other"

func failureWords() []string {
	var words []string
	for _, f := range failures {
		words = append(words, f.word)
	}
	return append(words, otherFailure)
}

// failure returns the kind of an item's error, or nothing when it did not fail.
func failure(err error) string {
	if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExists) {
		return ""
	}
	for _, f := range failures {
		if errors.Is(err, f.err) {
			return f.word
		}
	}
	return otherFailure
}

// A timedStore tells what calls to a store take, and what fails.
type timedStore struct {
	store.Store
	metrics *Metrics
}

// Store returns a store whose calls are counted, around another.
func (m *Metrics) Store(beneath store.Store) store.Store { return &timedStore{beneath, m} }

// Beneath returns the store beneath, for what the contract does not have.
func (s *timedStore) Beneath() store.Store { return s.Store }

func (s *timedStore) called(operation string, began time.Time, errs ...error) {
	s.metrics.storeCalls.WithLabelValues(operation).Observe(time.Since(began).Seconds())
	for _, err := range errs {
		if kind := failure(err); kind != "" {
			s.metrics.storeFails.WithLabelValues(operation, kind).Inc()
		}
	}
}

// BatchExist implements store.Store.
func (s *timedStore) BatchExist(ctx context.Context, keys []string) ([]bool, error) {
	began := time.Now()
	present, err := s.Store.BatchExist(ctx, keys)
	s.called("exist", began, err)
	return present, err
}

// BatchPut implements store.Store.
func (s *timedStore) BatchPut(ctx context.Context, items []store.Item) []error {
	began := time.Now()
	errs := s.Store.BatchPut(ctx, items)
	s.called("put", began, errs...)
	return errs
}

// BatchGet implements store.Store.
func (s *timedStore) BatchGet(ctx context.Context, items []store.Item) []error {
	began := time.Now()
	errs := s.Store.BatchGet(ctx, items)
	s.called("get", began, errs...)
	return errs
}

// Discard implements store.Store.
func (s *timedStore) Discard(ctx context.Context, key string) error {
	began := time.Now()
	err := s.Store.Discard(ctx, key)
	s.called("discard", began, err)
	return err
}
