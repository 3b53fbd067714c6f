package breaker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ollamoon/store"
)

// ErrOpen is returned by a call that the store beneath was not asked to do.
var ErrOpen = fmt.Errorf("%w: it failed, and is not asked again yet", store.ErrUnavailable)

// A State is what a breaker does with calls.
type State int

// The states.
const (
	Closed   State = iota // they are passed on
	Open                  // they fail at once
	HalfOpen              // one is passed on, the others fail at once
)

// States are all of them.
func States() []State { return []State{Closed, Open, HalfOpen} }

// String returns the state's name.
func (s State) String() string { return [...]string{"closed", "open", "half-open"}[s] }

// Defaults of a Config.
const (
	DefaultFailures = 3
	DefaultPause    = time.Second
	DefaultMaxPause = time.Minute
)

// A Config says when a breaker opens and for how long.
type Config struct {
	// Failures of an operation in a row open the breaker; 0 stands for
	// DefaultFailures.
	Failures int
	// Pause is how long it stays open at first, MaxPause at most; 0 stands for the
	// defaults.
	Pause, MaxPause time.Duration
	// Now is the time; nil stands for time.Now.
	Now func() time.Time
	// Logger gets a line when the breaker opens and when it closes; nil discards
	// them.
	Logger *slog.Logger
}

// A Status is what is known of a store beneath a breaker.
type Status struct {
	State State
	Since time.Time // of the state
	Until time.Time // from when on a probe is let through; zero unless open
	// LastError is the last failure, at LastErrorAt; nil when there was none.
	LastError   error
	LastErrorAt time.Time
	Opened      int64 // how often the breaker opened
	Refused     int64 // calls that failed with ErrOpen
}

// operation is what failures are counted by.
type operation int

const (
	exist operation = iota
	put
	get
	discard
	operations
)

// A Store is a store.Store behind a breaker.
type Store struct {
	beneath store.Store
	config  Config
	mu      struct {
		sync.Mutex
		status   Status
		pause    time.Duration    // the next one
		failures [operations]int  // in a row
		suspects [operations]bool // opened the breaker, and have not been answered since
		probing  bool             // half-open: the probe is under way
		epoch    int              // counts changes of state; what began before one says nothing after it
	}
}

// New returns a closed breaker around a store, which it closes with itself.
func New(beneath store.Store, config Config) *Store {
	if config.Failures <= 0 {
		config.Failures = DefaultFailures
	}
	if config.Pause <= 0 {
		config.Pause = DefaultPause
	}
	if config.MaxPause <= 0 {
		config.MaxPause = DefaultMaxPause
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{beneath: beneath, config: config}
	s.mu.pause = config.Pause
	s.mu.status.Since = config.Now()
	return s
}

// Beneath returns the store beneath, for what the contract does not have.
func (s *Store) Beneath() store.Store { return s.beneath }

// Status returns the present status.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.status
}

// An outcome is what the end of a call says of the store.
type outcome int

const (
	nothing  outcome = iota
	answered         // it works
	failed           // it is down or too slow
)

// judge returns what an error of an item, or nil, says of the store.
func judge(err error) outcome {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failed
	case errors.Is(err, context.Canceled), errors.Is(err, store.ErrClosed):
		return nothing
	case errors.Is(err, store.ErrUnavailable):
		return failed
	}
	return answered
}

// judgeAll returns what a batch's errors say, and the error that says so.
func judgeAll(errs []error) (outcome, error) {
	all, because := nothing, error(nil)
	for _, err := range errs {
		switch judge(err) {
		case failed:
			if errors.Is(err, context.DeadlineExceeded) {
				return failed, err
			}
			if all == nothing {
				all, because = failed, err
			}
		case answered:
			all, because = answered, nil
		case nothing:
		}
	}
	return all, because
}

// begin asks for leave to call the store beneath. The caller calls end with what
// came of it, whatever that is; or gets an error instead.
func (s *Store) begin(ctx context.Context, op operation) (end func(outcome, error), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err // no deadline of the store's
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := &s.mu.status
	if status.State == Open && !s.config.Now().Before(status.Until) {
		s.change(HalfOpen)
	}
	if status.State == Open || s.mu.probing {
		status.Refused++
		return nil, fmt.Errorf("%w: %s", ErrOpen, status.LastError.Error()) // which this call has not met with
	}
	s.mu.probing = status.State == HalfOpen
	epoch := s.mu.epoch
	return func(o outcome, err error) { s.end(op, epoch, o, err) }, nil
}

// end notes what a call that was begun in an epoch says of the store.
func (s *Store) end(op operation, epoch int, o outcome, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if epoch != s.mu.epoch {
		return
	}
	s.mu.probing = false
	switch o {
	case answered:
		s.mu.failures[op], s.mu.suspects[op] = 0, false
		if s.mu.suspects == [operations]bool{} {
			s.mu.pause = s.config.Pause
		}
		if s.mu.status.State == HalfOpen {
			s.change(Closed)
			s.config.Logger.Info("the store is asked again")
		}
	case failed:
		s.mu.status.LastError, s.mu.status.LastErrorAt = err, s.config.Now()
		s.mu.failures[op]++
		if s.mu.status.State == HalfOpen || s.mu.suspects[op] || s.mu.failures[op] >= s.config.Failures {
			s.mu.suspects[op] = true
			s.open()
		}
	case nothing: // after a probe, the next call is one
	}
}

// open opens the breaker for a pause.
func (s *Store) open() {
	s.change(Open)
	s.mu.status.Until = s.mu.status.Since.Add(s.mu.pause)
	s.mu.status.Opened++
	s.config.Logger.Warn("the store is not asked for a while", "pause", s.mu.pause, "error", s.mu.status.LastError)
	s.mu.pause = min(2*s.mu.pause, s.config.MaxPause)
}

func (s *Store) change(to State) {
	s.mu.status.State, s.mu.status.Since, s.mu.status.Until = to, s.config.Now(), time.Time{}
	s.mu.probing = false
	s.mu.epoch++
}
