// Package faulty wraps a store so that it fails on cue: for tests of what other
// packages do when a store is slow, down, full, or returns other bytes.
//
// A Fault is what happens to some of the items of some of the calls. Those that
// no fault is for reach the store beneath unchanged.
package faulty

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ollamoon/store"
)

// An Op is a set of methods that take keys.
type Op uint8

// The methods.
const (
	Exist Op = 1 << iota
	Put
	Get
	Discard

	Every = Exist | Put | Get | Discard
)

// A Fault happens to the items that it matches. Its effects come in the order
// of the fields. The zero Fault matches everything and does nothing.
type Fault struct {
	// Ops are the methods, Keys the keys: none and nil stand for all.
	Ops  Op
	Keys func(key string) bool
	// Skip is how many matching items pass first, Times how many the fault then
	// happens to; 0 stands for all. Items are counted in the order of a batch.
	Skip, Times int

	// Delay holds the call up, once for its first item that matches, and less
	// when its context is done before.
	Delay time.Duration
	// Hang holds the call until its context is done, as a server does that no
	// longer answers; the item fails with the context's error.
	Hang bool
	// Err is the item's result, and the store beneath is not asked for it. A
	// BatchExist fails as a whole.
	Err error
	// Deny answers as if the object were not there: false to BatchExist,
	// store.ErrNotFound to BatchGet, and a put or a discard that says it succeeded
	// does nothing.
	Deny bool
	// Claim answers true to BatchExist.
	Claim bool
	// Change is done to the bytes that BatchGet read, and no error tells of it:
	// see Flip, Zero and Swap.
	Change func(object []byte)
}

// Flip changes one bit in the middle of an object.
func Flip(object []byte) { object[len(object)/2] ^= 1 }

// Zero is what a put that ended without its data leaves.
func Zero(object []byte) { clear(object) }

// Swap returns a change into another object's bytes, cut or filled up with
// zeroes to the same length.
func Swap(other []byte) func(object []byte) {
	return func(object []byte) { clear(object[copy(object, other):]) }
}

// Key matches one key.
func Key(key string) func(string) bool {
	return func(k string) bool { return k == key }
}

// A Store is a store.Store over another, which it closes.
type Store struct {
	beneath store.Store

	mu     sync.Mutex
	faults []*armed
	calls  map[Op]int
	keys   map[Op]int
}

type armed struct {
	Fault
	seen int
}

// New returns a Store without faults.
func New(beneath store.Store) *Store {
	return &Store{beneath: beneath, calls: make(map[Op]int), keys: make(map[Op]int)}
}

// Add adds faults. An item that several match has the effects of the one that
// was added first.
func (s *Store) Add(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		if f.Ops == 0 {
			f.Ops = Every
		}
		s.faults = append(s.faults, &armed{Fault: f})
	}
}

// Clear removes all faults. Calls that hang or are held up stay so.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Calls returns how often a method was called, and with how many keys in all.
func (s *Store) Calls(op Op) (calls, keys int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[op], s.keys[op]
}

// match counts a call and returns the fault of each key, or nil.
func (s *Store) match(op Op, keys []string) []*armed {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[op]++
	s.keys[op] += len(keys)
	found := make([]*armed, len(keys))
	for i, key := range keys {
		for _, f := range s.faults {
			if f.Ops&op == 0 || f.Keys != nil && !f.Keys(key) {
				continue
			}
			f.seen++
			if n := f.seen - f.Skip; n > 0 && (f.Times == 0 || n <= f.Times) {
				found[i] = f
				break
			}
		}
	}
	return found
}

// hold does what faults do before the store is asked. It returns the error of
// each item that is not to reach the store, or nil; errDenied stands for Deny.
func hold(ctx context.Context, faults []*armed) []error {
	errs := make([]error, len(faults))
	delayed := make(map[*armed]bool)
	for i, f := range faults {
		if f == nil {
			continue
		}
		if f.Delay > 0 && !delayed[f] {
			delayed[f] = true
			wait(ctx, f.Delay)
		}
		switch {
		case f.Hang:
			<-ctx.Done()
			errs[i] = fmt.Errorf("store/faulty: %w", ctx.Err())
		case f.Err != nil:
			errs[i] = fmt.Errorf("store/faulty: %w", f.Err)
		case f.Deny:
			errs[i] = errDenied
		}
	}
	return errs
}

var errDenied = errors.New("store/faulty: denied")

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
