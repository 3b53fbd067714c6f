package standin

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"ollamoon/connector"
	"ollamoon/internal/worker"
)

// statusPath is where the status is, below the prefix of all paths.
const statusPath = "/ollamoon/status"

// A state is what is shared at the moment.
type state struct {
	sharing *worker.Sharing // nil: nothing
	worker  *worker.Worker
	reason  string // why nothing is shared
	build   string // of the engine
}

// A board holds the present state.
type board struct {
	mu struct {
		sync.Mutex
		state state
	}
}

func (b *board) set(s state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.state = s
}

func (b *board) get() state {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.state
}

// Status is what a stand-in says of itself.
type Status struct {
	Sharing bool   `json:"sharing"`
	Reason  string `json:"reason,omitempty"` // why not

	Store          string `json:"store"`
	Role           string `json:"role"`
	Exact          bool   `json:"exact"`
	Namespace      string `json:"namespace,omitempty"`
	NamespaceWords string `json:"namespace_words,omitempty"`

	Engine    EngineStatus    `json:"engine"`
	Slots     SlotStatus      `json:"slots"`
	Estimates EstimatesStatus `json:"estimates"`
	Pages     PageStatus      `json:"pages"`
}

// EngineStatus says which engine is behind.
type EngineStatus struct {
	Binary string `json:"binary"`
	PID    int    `json:"pid"`
	Build  string `json:"build,omitempty"`
}

// SlotStatus counts the engine's slots and who waits for one.
type SlotStatus struct {
	Total   int    `json:"total"`
	Free    int    `json:"free"`
	Waiting int    `json:"waiting"`
	Folder  string `json:"folder"`
}

// EstimatesStatus are expected times; 0 is not known yet.
type EstimatesStatus struct {
	PageLoadMS     float64 `json:"page_load_ms"`
	TokenComputeMS float64 `json:"token_compute_ms"`
}

// PageStatus is connector.Stats.
type PageStatus struct {
	PagesLookedUp   int64            `json:"looked_up"`
	PagesHit        int64            `json:"hit"`
	BytesLoaded     int64            `json:"bytes_loaded"`
	PagesPublished  int64            `json:"published"`
	BytesPublished  int64            `json:"bytes_published"`
	Rejected        map[string]int64 `json:"rejected,omitempty"`
	PagesDiscarded  int64            `json:"discarded"`
	DiscardFailures int64            `json:"discard_failures"`
}

var _ = PageStatus(connector.Stats{}) // the two differ in tags only

func (s *standIn) status() Status {
	now := s.board.get()
	status := Status{
		Reason: now.reason, Store: s.settings.Store, Role: s.settings.Role.String(), Exact: s.settings.Exact,
		Engine: EngineStatus{Binary: s.binary, PID: s.engine.PID(), Build: now.build},
		Slots:  SlotStatus{Folder: s.folders.slots},
	}
	if now.sharing == nil {
		if status.Reason == "" {
			status.Reason = "the engine loads its model"
		}
		return status
	}
	work := now.worker.Status()
	status.Sharing = true
	status.Namespace, status.NamespaceWords = now.sharing.Namespace.Model(), now.sharing.Namespace.String()
	status.Slots.Total, status.Slots.Free, status.Slots.Waiting = work.Slots, work.Free, work.Waiting
	status.Estimates = EstimatesStatus{PageLoadMS: ms(work.PageLoad), TokenComputeMS: ms(work.TokenCompute)}
	status.Pages = PageStatus(work.Pages)
	return status
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (s *standIn) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(s.status()) // the client may have gone
}
