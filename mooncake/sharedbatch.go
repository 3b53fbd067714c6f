package mooncake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"ollamoon/mooncake/shm"
)

const (
	// groupBytes is about how much one call to the process moves: enough to make the
	// call itself cheap, and little enough that some objects are done while others
	// still move.
	groupBytes = 16 << 20
	groupKeys  = 256
	// groupsAtOnce is how many such calls are in progress.
	groupsAtOnce = 2
)

// get reads the objects of tasks. It returns the tasks that are left to TCP.
func (s *sharedMemory) get(ctx context.Context, tasks []task) []task {
	l := s.use()
	if l == nil {
		return tasks
	}
	return s.groups(l, tasks, func(g group) []task { return s.getGroup(ctx, l, g) })
}

// put stores the objects of tasks under keys that have none. It returns the tasks
// that are left to TCP.
//
// The process does not tell a key that has an object from one that it stored, so
// the master is asked before. Who puts the same key at the same moment is not seen.
func (s *sharedMemory) put(ctx context.Context, tasks []task) []task {
	l := s.use()
	if l == nil {
		return tasks
	}
	var absent, left []task
	seen := make(map[string]bool, len(tasks))
	for part := range chunks(tasks) {
		exists, err := ask(ctx, s.client.master, exist(keysOf(part), s.client.config.Tenant))
		if err != nil {
			left = append(left, part...)
			continue
		}
		for i, t := range part {
			switch {
			case seen[t.item.Key]:
				left = append(left, t) // which finds the one before
			case exists[i].value:
				*t.err = codeError(codeExists)
			default:
				absent = append(absent, t)
			}
			seen[t.item.Key] = true
		}
	}
	return append(left, s.groups(l, absent, func(g group) []task { return s.putGroup(ctx, l, g) })...)
}

// A group is what one call to the process moves.
type group struct {
	tasks  []task
	staged bool // through the stage, as their buffers are not shared
	bytes  int64
}

// groups runs do for all tasks, in groups, and returns what is left to TCP.
func (s *sharedMemory) groups(l *link, tasks []task, do func(group) []task) []task {
	groups, left := cut(l, tasks)
	var mu sync.Mutex
	parallel(map[string][]group{"": groups}, groupsAtOnce, func(g group) {
		undone := do(g)
		mu.Lock()
		defer mu.Unlock()
		left = append(left, undone...)
	})
	return left
}

// cut makes groups of tasks, and returns those that TCP has to do.
func cut(l *link, tasks []task) (groups []group, left []task) {
	var open [2]group // of shared buffers, and staged
	open[1].staged = true
	for _, t := range tasks {
		size := wholePages(len(t.item.Bytes))
		g, limit := &open[0], int64(groupBytes)
		if !l.session.Shared(t.item.Bytes) {
			g, limit = &open[1], stageShare
		}
		if size == 0 || g.staged && size > stageShare {
			left = append(left, t)
			continue
		}
		if len(g.tasks) > 0 && (g.bytes+size > limit || len(g.tasks) == groupKeys) {
			groups = append(groups, *g)
			*g = group{staged: g.staged}
		}
		g.tasks = append(g.tasks, t)
		g.bytes += size
	}
	for _, g := range open {
		if len(g.tasks) > 0 {
			groups = append(groups, g)
		}
	}
	return groups, left
}

func wholePages(size int) int64 {
	page := int64(os.Getpagesize())
	return (int64(size) + page - 1) / page * page
}

func (s *sharedMemory) getGroup(ctx context.Context, l *link, g group) (left []task) {
	items, release, err := s.items(ctx, l, g)
	if err != nil {
		return s.failed(ctx, g.tasks, err)
	}
	results, err := l.session.Get(ctx, items)
	defer func() { release(err == nil) }()
	if err != nil {
		return s.failed(ctx, g.tasks, err)
	}
	for i, t := range g.tasks {
		size := len(t.item.Bytes)
		switch {
		case results[i].Code == codeInvalid:
			*t.err = fmt.Errorf("%w: more than the %d bytes of the buffer", ErrLength, size)
		case results[i].Code != 0:
			left = append(left, s.refused(t, int32(results[i].Code))...)
		case results[i].Bytes != size:
			*t.err = fmt.Errorf("%w: %d bytes, the buffer has %d", ErrLength, results[i].Bytes, size)
		default:
			if g.staged {
				copy(t.item.Bytes, items[i].Bytes)
				s.client.counters.copied(size)
			}
			s.client.counters.shared.read(size)
			if t.item.Done != nil {
				t.item.Done()
			}
		}
	}
	return left
}

func (s *sharedMemory) putGroup(ctx context.Context, l *link, g group) (left []task) {
	items, release, err := s.items(ctx, l, g)
	if err != nil {
		return s.failed(ctx, g.tasks, err)
	}
	if g.staged {
		for i, t := range g.tasks {
			copy(items[i].Bytes, t.item.Bytes)
			s.client.counters.copied(len(t.item.Bytes))
		}
	}
	results, err := l.session.Put(ctx, items)
	defer func() { release(err == nil) }()
	if err != nil {
		return s.failed(ctx, g.tasks, err)
	}
	for i, t := range g.tasks {
		if code := int32(results[i].Code); code != 0 {
			left = append(left, s.refused(t, code)...)
			continue
		}
		s.client.counters.shared.wrote(len(t.item.Bytes))
	}
	return left
}

// items returns the group as the session takes it, and what gives the stage back.
func (s *sharedMemory) items(ctx context.Context, l *link, g group) ([]shm.Item, func(good bool), error) {
	items := make([]shm.Item, len(g.tasks))
	for i, t := range g.tasks {
		items[i] = shm.Item{Key: t.item.Key, Bytes: t.item.Bytes}
	}
	if !g.staged {
		return items, func(bool) {}, nil
	}
	sizes := make([]int, len(items))
	for i := range items {
		sizes[i] = len(items[i].Bytes)
	}
	buffers, err := l.stage.take(ctx, sizes)
	if err != nil {
		return nil, nil, err
	}
	for i, b := range buffers {
		items[i].Bytes = b.Bytes()
	}
	return items, func(good bool) { l.stage.give(buffers, good) }, nil
}

// failed takes tasks of which the session does not know the outcome, and returns
// those that TCP shall do.
func (s *sharedMemory) failed(ctx context.Context, tasks []task, err error) []task {
	if ctx.Err() != nil {
		failAll(tasks, ended(ctx, err))
		return nil
	}
	s.client.counters.fallbacks.Add(1)
	for i := range tasks {
		tasks[i].begun = true
	}
	return tasks
}

// refused takes a task that the process answered with a code: as its outcome, if
// the code tells of the object, else TCP shall do it.
func (s *sharedMemory) refused(t task, code int32) []task {
	err := codeError(code)
	for _, final := range []error{ErrNotFound, ErrExists, ErrNoSpace, ErrArgument, ErrChecksum} {
		if errors.Is(err, final) {
			*t.err = err
			return nil
		}
	}
	s.client.counters.fallbacks.Add(1)
	t.begun = true
	return []task{t}
}
