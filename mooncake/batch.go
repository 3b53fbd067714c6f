package mooncake

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// chunks cuts keys, or what has one each, into parts that one call may name.
func chunks[T any](all []T) iter.Seq[[]T] { return slices.Chunk(all, maxKeys) }

// repeat returns n times err: the result of a batch that failed as a whole.
func repeat(n int, err error) []error {
	return slices.Repeat([]error{err}, n)
}

// A task is an item of a batch and where its outcome goes.
type task struct {
	item *Item
	err  *error
	// begun: shared memory has failed at it, and may have got half way.
	begun bool
}

// tasksOf returns a task for each item, and their outcomes.
func tasksOf(items []Item) ([]task, []error) {
	tasks, errs := make([]task, len(items)), make([]error, len(items))
	for i := range items {
		tasks[i] = task{item: &items[i], err: &errs[i]}
	}
	return tasks, errs
}

func keysOf(tasks []task) []string {
	keys := make([]string, len(tasks))
	for i, t := range tasks {
		keys[i] = t.item.Key
	}
	return keys
}

// failAll gives all tasks one outcome.
func failAll(tasks []task, err error) {
	for _, t := range tasks {
		*t.err = err
	}
}

// named adds to each error what was done to which key.
func named(doing string, items []Item, errs []error) []error {
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("%s %q: %w", doing, items[i].Key, err)
		}
	}
	return errs
}

// windowKeys is how many objects a window has at most.
const windowKeys = 1024

// A window is how many bytes of objects are asked for, or announced, at a time.
// What is asked for has to be read within the lease, and what is announced to be
// written before the master gives up on it: after half a minute, by default.
type window struct{ bytes int }

const (
	firstWindow = 64 << 20
	leastWindow = 4 << 20
	mostWindow  = 1 << 30
)

// next cuts the next window off the tasks: one task at least.
func (w *window) next(tasks []task) (now, later []task) {
	if w.bytes == 0 {
		w.bytes = firstWindow
	}
	n, bytes := 0, 0
	for n < len(tasks) && n < windowKeys {
		bytes += len(tasks[n].item.Bytes)
		if n > 0 && bytes > w.bytes {
			break
		}
		n++
	}
	return tasks[:n], tasks[n:]
}

// adapt sets the window's size so that at the speed of the last one, which moved
// bytes in a time, it takes half of limit.
func (w *window) adapt(bytes int, took, limit time.Duration) {
	if bytes == 0 || took <= 0 || limit <= 0 {
		return
	}
	speed := float64(bytes) / took.Seconds()
	w.bytes = int(min(max(speed*limit.Seconds()/2, leastWindow), mostWindow))
}

// parallel runs do for all jobs: those of different owners at the same time, those
// of one owner in their order, up to width of them at the same time. It returns
// when all have been done.
func parallel[J any](jobs map[string][]J, width int, do func(J)) {
	var workers sync.WaitGroup
	for _, queue := range jobs {
		var next atomic.Int64
		for range min(width, len(queue)) {
			workers.Go(func() {
				for {
					i := int(next.Add(1)) - 1
					if i >= len(queue) {
						return
					}
					do(queue[i])
				}
			})
		}
	}
	workers.Wait()
}
