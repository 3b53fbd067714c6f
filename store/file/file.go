package file

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"ollamoon/store"
	"ollamoon/store/internal/inflight"
)

// DefaultBudgetBytes is the budget of a Config that names none.
const DefaultBudgetBytes = 16 << 30

const (
	// chunkBytes is how much is read or written between two looks at the context.
	chunkBytes = 1 << 20
	// maxParallel bounds how many files of a batch are read or written at once.
	maxParallel = 4
	// renewAfter is how old a time of last use gets before a use renews it.
	renewAfter = time.Minute
)

// A Config says where a Store is and how large it gets.
type Config struct {
	// Dir is the folder. It is made when it does not exist.
	Dir string
	// BudgetBytes is the most that the folder's files take; 0 stands for
	// DefaultBudgetBytes.
	BudgetBytes int64
}

// A Store is a store.Store. Open makes one.
type Store struct {
	dir        string
	budget     int64
	renewAfter time.Duration
	header     []byte // of the usage file
	calls      *inflight.Calls
	turn       chan struct{} // who holds it may ask for the folder's lock
	counts     counts
}

type counts struct {
	puts, hits, misses, evictions, damaged, swept atomic.Int64
}

// Stats says what a Store has done since Open. Other stores of the same folder
// have their own.
type Stats struct {
	Puts   int64 // objects stored
	Hits   int64 // objects read
	Misses int64 // objects asked for that were not there, or had another length
	// Evictions counts objects that made room for others, Damaged files that were
	// no whole objects and were removed, Swept leftovers of dead processes.
	Evictions, Damaged, Swept int64
}

// Open opens the store of a folder. It fails when the folder cannot be read, is
// not the user's own, is open to others, or holds other files than a store's.
func Open(config Config) (*Store, error) {
	if config.Dir == "" {
		return nil, errors.New("store/file: no folder is named")
	}
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("store/file: %w", err)
	}
	if config.BudgetBytes < 0 {
		return nil, fmt.Errorf("store/file: a budget must be positive, not %d bytes", config.BudgetBytes)
	}
	s := &Store{
		dir: dir, budget: config.BudgetBytes, renewAfter: renewAfter, header: usageHeader(),
		calls: inflight.New(), turn: make(chan struct{}, 1),
	}
	if s.budget == 0 {
		s.budget = DefaultBudgetBytes
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	s.sweepAtOpen()
	return s, nil
}

// Stats returns the present figures.
func (s *Store) Stats() Stats {
	return Stats{
		Puts: s.counts.puts.Load(), Hits: s.counts.hits.Load(), Misses: s.counts.misses.Load(),
		Evictions: s.counts.evictions.Load(), Damaged: s.counts.damaged.Load(), Swept: s.counts.swept.Load(),
	}
}

// Used returns what the folder's files count against the budget. It may be too
// high after a process was killed.
func (s *Store) Used(ctx context.Context) (int64, error) {
	ctx, end, err := s.calls.Begin(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting the bytes in %s: %w", s.dir, err)
	}
	defer end()
	u, err := s.lock(ctx)
	if err != nil {
		return 0, fmt.Errorf("counting the bytes in %s: %w", s.dir, err)
	}
	used := u.total()
	return used, u.unlock()
}

// Alloc implements store.Store. All memory is the same here.
func (s *Store) Alloc(size int) (store.Buffer, error) {
	if s.calls.Closed() {
		return nil, fmt.Errorf("allocating %d bytes: %w", size, store.ErrClosed)
	}
	if size <= 0 {
		return nil, fmt.Errorf("store/file: a buffer has at least one byte, not %d", size)
	}
	return store.Memory(size), nil
}

// Close implements store.Store. The objects stay.
func (s *Store) Close() error {
	s.calls.Close()
	return nil
}

// each calls f for 0 to n-1, several at once, and waits for all.
func each(n int, f func(i int)) {
	workers := min(n, maxParallel, runtime.GOMAXPROCS(0))
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
}
