package memory

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"sync"

	"ollamoon/store"
	"ollamoon/store/internal/inflight"
)

// A Store is a store.Store. New makes one.
type Store struct {
	calls  *inflight.Calls
	budget int64

	mu struct {
		sync.Mutex
		objects map[string]*list.Element // of *object
		used    *list.List               // the latest used at the front
		stats   Stats
	}
}

type object struct {
	key   string
	bytes []byte // never written to
}

// Stats says what a Store holds and what it has done since New.
type Stats struct {
	Objects int   // held now
	Bytes   int64 // in them
	Puts    int64 // objects stored
	Hits    int64 // objects read
	Misses  int64 // objects asked for that were not there, or had another length
	// Evictions counts objects that made room for others, Discards those that
	// Discard removed.
	Evictions, Discards int64
}

// New returns an empty Store that holds at most budget bytes.
func New(budget int64) (*Store, error) {
	if budget <= 0 {
		return nil, fmt.Errorf("store/memory: a budget must be positive, not %d bytes", budget)
	}
	s := &Store{calls: inflight.New(), budget: budget}
	s.mu.objects = make(map[string]*list.Element)
	s.mu.used = list.New()
	return s, nil
}

// Stats returns the present figures.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.stats
}

// BatchExist implements store.Store.
func (s *Store) BatchExist(ctx context.Context, keys []string) ([]bool, error) {
	ctx, end, err := s.calls.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking up %d objects in memory: %w", len(keys), err)
	}
	defer end()
	if err := inflight.Err(ctx); err != nil {
		return nil, fmt.Errorf("looking up %d objects in memory: %w", len(keys), err)
	}
	present := make([]bool, len(keys))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(keys) - 1; i >= 0; i-- {
		present[i] = s.find(keys[i]) != nil
	}
	return present, nil
}

// find returns a key's object, or nil, and makes it the latest used one. It is
// called for a batch from the end, so that the first item is used last. s.mu is
// held.
func (s *Store) find(key string) *object {
	e := s.mu.objects[key]
	if e == nil {
		return nil
	}
	s.mu.used.MoveToFront(e)
	return e.Value.(*object)
}

// BatchGet implements store.Store.
func (s *Store) BatchGet(ctx context.Context, items []store.Item) []error {
	ctx, end, err := s.calls.Begin(ctx)
	if err != nil {
		return store.Errors(len(items), fmt.Errorf("reading from memory: %w", err))
	}
	defer end()
	errs := make([]error, len(items))
	objects := s.lookUp(items, errs)
	for i, o := range objects {
		if errs[i] != nil {
			continue
		}
		if err := inflight.Err(ctx); err != nil {
			errs[i] = fmt.Errorf("reading from memory: %w", err)
			continue
		}
		copy(items[i].Bytes, o.bytes)
		if items[i].Done != nil {
			items[i].Done()
		}
	}
	return errs
}

// lookUp returns the objects that fit their items and sets the others' errors.
func (s *Store) lookUp(items []store.Item, errs []error) []*object {
	objects := make([]*object, len(items))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(items) - 1; i >= 0; i-- {
		item := items[i]
		if errs[i] = store.CheckItem(item); errs[i] != nil {
			continue
		}
		o := s.find(item.Key)
		switch {
		case o == nil:
			errs[i] = fmt.Errorf("%w in memory: %s", store.ErrNotFound, item.Key)
		case len(o.bytes) != len(item.Bytes):
			errs[i] = fmt.Errorf("%w: %s has %d bytes, the buffer %d", store.ErrLength, item.Key, len(o.bytes), len(item.Bytes))
		default:
			s.mu.stats.Hits++
			objects[i] = o
			continue
		}
		s.mu.stats.Misses++
	}
	return objects
}

// BatchPut implements store.Store.
func (s *Store) BatchPut(ctx context.Context, items []store.Item) []error {
	ctx, end, err := s.calls.Begin(ctx)
	if err != nil {
		return store.Errors(len(items), fmt.Errorf("writing to memory: %w", err))
	}
	defer end()
	errs := make([]error, len(items))
	s.touch(items) // what is there must not make room for the rest of its batch
	defer s.touch(items)
	room := s.budget
	for i, item := range items {
		if errs[i] = store.CheckItem(item); errs[i] != nil {
			continue
		}
		if err := inflight.Err(ctx); err != nil {
			errs[i] = fmt.Errorf("writing to memory: %w", err)
			continue
		}
		room -= int64(len(item.Bytes))
		errs[i] = s.put(item, room >= 0)
	}
	return errs
}

// touch makes the objects of a batch the latest used ones, the first item's above
// all.
func (s *Store) touch(items []store.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(items) - 1; i >= 0; i-- {
		s.find(items[i].Key)
	}
}

// put stores one object, if it fits into the budget beside those of its batch.
func (s *Store) put(item store.Item, fits bool) error {
	exists := fmt.Errorf("%w in memory: %s", store.ErrExists, item.Key)
	s.mu.Lock()
	there := s.mu.objects[item.Key] != nil
	s.mu.Unlock()
	if there {
		return exists
	}
	if !fits {
		return fmt.Errorf("%w: %d bytes, and those before in the batch, do not fit into %d", store.ErrFull, len(item.Bytes), s.budget)
	}
	o := &object{key: item.Key, bytes: bytes.Clone(item.Bytes)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.objects[item.Key] != nil {
		return exists
	}
	for s.mu.stats.Bytes+int64(len(o.bytes)) > s.budget {
		s.remove(s.mu.used.Back())
		s.mu.stats.Evictions++
	}
	s.mu.objects[o.key] = s.mu.used.PushFront(o)
	s.mu.stats.Objects++
	s.mu.stats.Bytes += int64(len(o.bytes))
	s.mu.stats.Puts++
	return nil
}

// remove takes an object out. s.mu is held.
func (s *Store) remove(e *list.Element) {
	o := s.mu.used.Remove(e).(*object)
	delete(s.mu.objects, o.key)
	s.mu.stats.Objects--
	s.mu.stats.Bytes -= int64(len(o.bytes))
}

// Discard implements store.Store.
func (s *Store) Discard(ctx context.Context, key string) error {
	ctx, end, err := s.calls.Begin(ctx)
	if err != nil {
		return fmt.Errorf("discarding %s: %w", key, err)
	}
	defer end()
	if err := inflight.Err(ctx); err != nil {
		return fmt.Errorf("discarding %s: %w", key, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.mu.objects[key]; e != nil {
		s.remove(e)
		s.mu.stats.Discards++
	}
	return nil
}

// Alloc implements store.Store. All memory is the same here.
func (s *Store) Alloc(size int) (store.Buffer, error) {
	if s.calls.Closed() {
		return nil, fmt.Errorf("allocating %d bytes: %w", size, store.ErrClosed)
	}
	if size <= 0 {
		return nil, fmt.Errorf("store/memory: a buffer has at least one byte, not %d", size)
	}
	return store.Memory(size), nil
}

// Close implements store.Store. The objects are gone.
func (s *Store) Close() error {
	s.calls.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.mu.objects)
	s.mu.used.Init()
	s.mu.stats.Objects, s.mu.stats.Bytes = 0, 0
	return nil
}
