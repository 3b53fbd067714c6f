package simulate

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"ollamoon/internal/simulate/trace"
)

// A Grid is the runs to compare: every policy with every number of workers at
// every load, with the largest store; and those with a store, at the number of
// workers in the focus, also with the others.
type Grid struct {
	Policies []Policy
	Workers  []int
	Loads    []float64
	Stores   []float64 // parts of the distinct pages
	Seed     uint64
	Costs    Costs
	Saves    Saves
	// WorkerCache is the size of each worker's own cache, in bytes. EqualMemory: where
	// there is no store, each has an equal part of the largest store's size besides.
	WorkerCache int64
	EqualMemory bool
}

// Validate reports a grid that cannot be run.
func (g Grid) Validate() error {
	if len(g.Policies) == 0 || len(g.Workers) == 0 || len(g.Loads) == 0 || len(g.Stores) == 0 {
		return fmt.Errorf("%w: no policy, number of workers, load or size of the store", ErrOptions)
	}
	for _, part := range g.Stores {
		if !(part > 0 && part <= 1) {
			return fmt.Errorf("%w: a store of %g of the distinct blocks; use parts of 1", ErrOptions, part)
		}
	}
	for _, n := range g.Workers {
		for _, load := range g.Loads {
			o := Options{Policy: g.Policies[0], Workers: n, Load: load, Costs: g.Costs, Saves: g.Saves}
			if err := o.validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// A Cell is one run of a grid.
type Cell struct {
	Options Options
	Store   float64 // as in Grid; 0 without a store
}

// Focus is the number of workers at which stores of several sizes are compared: 64
// if that is among them, else the middle one.
func Focus(workers []int) int {
	for _, n := range workers {
		if n == 64 {
			return n
		}
	}
	return workers[len(workers)/2]
}

// Cells lists the runs.
func (g Grid) Cells(p *trace.Pages) []Cell {
	largest := 0.0
	for _, part := range g.Stores {
		largest = max(largest, part)
	}
	var all []Cell
	for _, n := range g.Workers {
		for _, load := range g.Loads {
			for _, policy := range g.Policies {
				if !policy.shared() {
					all = append(all, g.cell(p, policy, n, load, 0, largest))
					continue
				}
				for _, part := range g.Stores {
					if part == largest || n == Focus(g.Workers) {
						all = append(all, g.cell(p, policy, n, load, part, largest))
					}
				}
			}
		}
	}
	return all
}

func (g Grid) cell(p *trace.Pages, policy Policy, workers int, load, store, largest float64) Cell {
	pageBytes := g.Costs.KVBytes * float64(p.Tokens)
	o := Options{
		Policy: policy, Workers: workers, Load: load, Seed: g.Seed, Costs: g.Costs, Saves: g.Saves,
		WorkerCache: int(float64(g.WorkerCache) / pageBytes), Store: int(store * float64(p.Distinct)),
	}
	if g.EqualMemory && !policy.shared() {
		o.WorkerCache += int(largest * float64(p.Distinct) / float64(workers))
	}
	return Cell{Options: o, Store: store}
}

// Run simulates all cells, several at a time, and returns their outcomes in order.
// done is called after each.
func (g Grid) Run(ctx context.Context, p *trace.Pages, done func()) ([]Cell, []*Outcome, error) {
	cells := g.Cells(p)
	outcomes := make([]*Outcome, len(cells))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan int)
	var running sync.WaitGroup
	var said sync.Mutex
	for range min(len(cells), runtime.GOMAXPROCS(0)) {
		running.Go(func() {
			for i := range next {
				o, err := Run(ctx, p, cells[i].Options, nil)
				if err != nil {
					stop(fmt.Errorf("%s, %d workers, load %g: %w", cells[i].Options.Policy, cells[i].Options.Workers, cells[i].Options.Load, err))
					continue
				}
				outcomes[i] = o
				said.Lock()
				done()
				said.Unlock()
			}
		})
	}
	for i := len(cells) - 1; i >= 0 && ctx.Err() == nil; i-- { // the largest take longest
		next <- i
	}
	close(next)
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, nil, err
	}
	return cells, outcomes, nil
}
