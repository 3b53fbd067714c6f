package router

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"ollamoon/internal/router/policy"
)

// A state is what is known of a worker's health.
type state string

const (
	stateStarting state = "starting" // it has not been reached, or loads its model
	stateHealthy  state = "healthy"
	stateEjected  state = "ejected"  // it has failed
	stateRefused  state = "refused"  // it does not fit to the others
	stateDraining state = "draining" // it is to be removed and gets no more requests
)

// A worker is a server behind the router. Its fields belong to the fleet's lock.
type worker struct {
	spec   Spec
	state  state
	reason string // of a state that is not healthy
	fails  int    // health checks in a row
	facts  facts
	leases map[*lease]struct{} // what runs on it

	// Of that, what has slots, and its tokens.
	running, prefill, generate int

	kick    chan struct{} // asks for a health check now
	stop    context.CancelFunc
	stopped chan struct{} // its health checks are over
}

// facts are what a worker says of itself.
type facts struct {
	slots  int      // 0 if it does not say
	models []string // as they are listed
	keys   []string // of the models
	status *workerStatus
}

// workerStatus is what matters of /ollamoon/status; a server of another kind has
// none.
type workerStatus struct {
	Sharing    bool   `json:"sharing"`
	Namespace  string `json:"namespace"`
	Words      string `json:"namespace_words"`
	PageTokens int    `json:"page_tokens"`
	Estimates  struct {
		PageLoadMS     float64 `json:"page_load_ms"`
		TokenComputeMS float64 `json:"token_compute_ms"`
	} `json:"estimates"`
}

func (f facts) shares() bool { return f.status != nil && f.status.Sharing }

// serves reports whether a worker gets requests for a model; "" is any.
func (w *worker) serves(model string) bool {
	return w.state == stateHealthy && (model == "" || slices.Contains(w.facts.keys, model))
}

// view is the worker as the policy sees it.
func (w *worker) view(slots int) policy.Worker {
	if w.facts.slots > 0 {
		slots = w.facts.slots
	}
	return policy.Worker{
		ID: w.spec.ID, Slots: slots, Running: w.running,
		Prefill: w.prefill, Generate: w.generate, NoStore: !w.facts.shares(),
	}
}

// A lease is a request that runs on a worker. Who holds it ends it.
type lease struct {
	fleet  *fleet
	worker *worker
	slots  int // that it has: 1, or none
	// cancel breaks the request off when the worker is taken out.
	cancel context.CancelCauseFunc

	prefill, generate int  // expected, and not yet done
	computes          int  // tokens of the prompt, as expected
	learns            bool // the worker does not say how fast it is
	began             time.Time
	came              atomic.Int64 // when the worker last sent something; 0: never
}

// answering says that the prompt has been computed.
func (l *lease) answering() {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	l.worker.prefill -= l.prefill
	l.prefill = 0
}

// end gives the slot back.
func (l *lease) end() {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	l.worker.prefill -= l.prefill
	l.worker.generate -= l.generate
	l.worker.running -= l.slots
	delete(l.worker.leases, l)
	l.fleet.removeDrained(l.worker)
	l.fleet.dispatch()
}
