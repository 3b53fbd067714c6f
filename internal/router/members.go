package router

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Who belongs to the fleet, and in which state.

func newNonce() string { return rand.Text() }

// add adds a worker whose facts are known, or nil. Its health checks are the
// caller's to start.
func (f *fleet) add(s Spec, known *facts, stop context.CancelFunc) (*worker, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.workers, func(w *worker) bool { return w.spec.ID == s.ID }) {
		return nil, fmt.Errorf("%w: there is a worker named %s", ErrConfig, s.ID)
	}
	w := &worker{
		spec: s, state: stateStarting, reason: "it has not been reached yet", leases: map[*lease]struct{}{},
		kick: make(chan struct{}, 1), stop: stop, stopped: make(chan struct{}),
	}
	if known != nil {
		if err := f.fits(w, known); err != nil {
			return nil, err
		}
		w.facts, w.state, w.reason = *known, stateHealthy, ""
	}
	f.workers = append(f.workers, w)
	f.changed()
	return w, nil
}

// fits returns an error that wraps ErrMismatch when a worker that shares pages
// does not do so as the others do.
func (f *fleet) fits(w *worker, known *facts) error {
	if !known.shares() {
		return nil
	}
	for _, other := range f.workers {
		if other == w || other.state == stateRefused || !other.facts.shares() {
			continue
		}
		ours, theirs := known.status, other.facts.status
		if ours.PageTokens != theirs.PageTokens {
			return fmt.Errorf("%w: pages of %d tokens at %s, of %d at %s; start all with one page size",
				ErrMismatch, ours.PageTokens, w.spec.ID, theirs.PageTokens, other.spec.ID)
		}
		for _, model := range known.keys {
			if slices.Contains(other.facts.keys, model) && ours.Namespace != theirs.Namespace {
				return fmt.Errorf("%w: %s has the model %q as %s (%s), %s as %s (%s); start both with the same model and options, or give them aliases",
					ErrMismatch, w.spec.ID, model, ours.Namespace, ours.Words, other.spec.ID, theirs.Namespace, theirs.Words)
			}
		}
	}
	return nil
}

// checked takes note of a health check.
func (f *fleet) checked(w *worker, known *facts, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.state == stateDraining {
		return
	}
	if err == nil && known != nil {
		err = f.fits(w, known)
	}
	switch {
	case errors.Is(err, ErrMismatch):
		f.set(w, stateRefused, err)
	case errors.Is(err, errLoading):
		f.set(w, stateStarting, err)
	case err != nil:
		w.fails++
		if w.fails >= f.config.Fall || w.state != stateHealthy {
			f.set(w, stateEjected, err)
			f.breakOff(w, time.Now().Add(-f.config.Timeout))
		}
		return
	default:
		if known != nil {
			w.facts = *known
			if known.status != nil {
				f.costs.said(known.status)
			}
		}
		f.set(w, stateHealthy, nil)
	}
	w.fails = 0
}

// set changes a worker's state. The lock is held.
func (f *fleet) set(w *worker, s state, reason error) {
	before := w.state
	w.state, w.reason = s, ""
	if reason != nil {
		w.reason = reason.Error()
	}
	if before != s {
		f.config.Logger.Info("a worker's state", "worker", w.spec.ID, "state", s, "reason", w.reason)
	}
	if s == stateEjected && before != s {
		f.metrics.ejections.WithLabelValues(w.spec.ID).Inc()
		f.places.Forget(w.spec.ID)
	}
	f.changed()
}

// breakOff breaks off what runs on a worker and of which nothing has come since. A
// stream that still flows is left: checks can fail where answers do not. The lock
// is held.
func (f *fleet) breakOff(w *worker, since time.Time) {
	for l := range w.leases {
		if l.cancel != nil && l.came.Load() < since.UnixNano() {
			l.cancel(errEjected)
		}
	}
}

// changed brings up to date what depends on the workers and their states.
func (f *fleet) changed() {
	f.models = nil
	for _, w := range f.workers {
		for _, k := range w.facts.keys {
			if w.state != stateRefused && w.state != stateDraining && !slices.Contains(f.models, k) {
				f.models = append(f.models, k)
			}
		}
	}
	f.setPolicy()
	f.waiting = slices.DeleteFunc(f.waiting, func(p *pending) bool {
		lost := len(f.able(p.call, p.tried)) == 0
		if lost {
			p.got <- grant{err: f.unable(p.call)}
		}
		return lost
	})
	f.dispatch()
}

// failed takes a worker out that could not be reached by a request.
func (f *fleet) failed(w *worker, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w.state == stateHealthy {
		f.set(w, stateEjected, err)
	}
	kick(w)
}

// doubt has a worker's health checked now.
func (f *fleet) doubt(w *worker) { kick(w) }

func kick(w *worker) {
	select {
	case w.kick <- struct{}{}:
	default: // it is asked already
	}
}

// errNotThere: there is no worker of that name.
var errNotThere = errors.New("there is no such worker")

// drain has a worker removed when nothing runs on it any more; if now, what runs
// is broken off.
func (f *fleet) drain(id string, now bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.workers, func(w *worker) bool { return w.spec.ID == id })
	if i < 0 {
		return fmt.Errorf("%w: %s", errNotThere, id)
	}
	w := f.workers[i]
	f.set(w, stateDraining, errors.New("it is to be removed"))
	if now {
		f.breakOff(w, time.Now().Add(time.Hour)) // all
	}
	f.removeDrained(w)
	return nil
}

// removeDrained removes a worker that is draining and on which nothing runs. The
// lock is held.
func (f *fleet) removeDrained(w *worker) {
	if w.state != stateDraining || len(w.leases) > 0 {
		return
	}
	if i := slices.Index(f.workers, w); i >= 0 {
		f.workers = slices.Delete(f.workers, i, i+1)
		f.places.Forget(w.spec.ID)
		f.metrics.forget(w.spec.ID)
		w.stop()
	}
}

// close has the queue and all that would join it fail.
func (f *fleet) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.again.Stop()
	for _, p := range f.waiting {
		p.got <- grant{err: errClosing}
	}
	f.waiting = nil
	for _, w := range f.workers {
		w.stop()
	}
}
