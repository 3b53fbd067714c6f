package standin

import (
	"encoding/json"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"ollamoon/connector"
	"ollamoon/internal/metrics"
	"ollamoon/internal/prefill"
	"ollamoon/internal/worker"
)

// Where the status and the metrics are, below the prefix of all paths.
const (
	statusPath  = "/ollamoon/status"
	metricsPath = "/ollamoon/metrics"
)

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

// set sets the state. The build, once known, stays.
func (b *board) set(s state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.build == "" {
		s.build = b.mu.state.build
	}
	b.mu.state = s
}

func (b *board) get() state {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.state
}

// loadingReason is why nothing is shared before it is known whether anything can
// be.
const loadingReason = "the engine loads its model, or is being calibrated"

// Status is what a stand-in says of itself.
type Status struct {
	Sharing bool   `json:"sharing"`
	Reason  string `json:"reason,omitempty"` // why not

	Store          string      `json:"store"` // its URL
	StoreState     StoreStatus `json:"store_state"`
	Role           string      `json:"role"`
	Exact          bool        `json:"exact"`
	Namespace      string      `json:"namespace,omitempty"`
	NamespaceWords string      `json:"namespace_words,omitempty"`
	PageTokens     int         `json:"page_tokens"`

	Version   VersionStatus   `json:"version"`
	Engine    EngineStatus    `json:"engine"`
	Slots     SlotStatus      `json:"slots"`
	Estimates EstimatesStatus `json:"estimates"`
	Pages     PageStatus      `json:"pages"`
	// Prefill are the prefill workers that this worker asks.
	Prefill []prefill.MemberStatus `json:"prefill,omitempty"`
	Errors  []ErrorStatus          `json:"errors,omitempty"` // warnings and errors of the log, the newest first
}

// VersionStatus says which program this is.
type VersionStatus struct {
	Ollamoon string `json:"ollamoon"`
	Go       string `json:"go"`
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
	// Overflow takes the slot files that Folder has no room for. NoRoom counts those
	// that neither had room for: what they were for was not shared.
	Overflow string       `json:"overflow,omitempty"`
	NoRoom   int64        `json:"no_room"`
	Each     []EachStatus `json:"each,omitempty"`
}

// EachStatus is what is known of a slot. Of one in use it is what was known
// before.
type EachStatus struct {
	Busy    bool `json:"busy"`
	Tokens  int  `json:"tokens"`  // whose rows it has, as far as is known
	Sound   int  `json:"sound"`   // of these, from the first on: may be published
	Unknown bool `json:"unknown"` // it may have rows of which nothing is known
}

var _ = EachStatus(worker.SlotStatus{}) // the two differ in tags only

// EstimatesStatus are expected times; 0 is not known yet.
type EstimatesStatus struct {
	PageLoadMS     float64 `json:"page_load_ms"`
	TokenComputeMS float64 `json:"token_compute_ms"`
	PageComputeMS  float64 `json:"page_compute_ms"`
	// BreakEvenTokens is how many tokens a page has to save for loading it to take
	// as long as computing them. Past a page's tokens loading never pays.
	BreakEvenTokens float64 `json:"break_even_tokens"`
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
		PageTokens: s.settings.PageTokens,
		StoreState: s.storeStatus(), Errors: s.recent.last(),
		Version: VersionStatus{Ollamoon: version(), Go: runtime.Version()},
		Engine:  EngineStatus{Binary: s.binary, PID: s.engine.PID(), Build: now.build},
		Slots:   SlotStatus{Folder: s.folders.slots, Overflow: s.folders.overflow},
	}
	if now.sharing == nil {
		if status.Reason == "" {
			status.Reason = loadingReason
		}
		return status
	}
	work := now.worker.Status()
	status.Sharing = true
	status.Namespace, status.NamespaceWords = now.sharing.Namespace.Model(), now.sharing.Namespace.String()
	status.Slots.Total, status.Slots.Free, status.Slots.Waiting = work.Slots, work.Free, work.Waiting
	status.Slots.NoRoom = work.NoRoom
	for _, each := range work.Each {
		status.Slots.Each = append(status.Slots.Each, EachStatus(each))
	}
	status.Estimates = estimated(work)
	status.Pages = PageStatus(work.Pages)
	if s.tenant != nil { // these are not for any one tenant to see
		status.Slots.Each, status.Errors = nil, nil
	}
	if pool := s.pool.Load(); pool != nil {
		status.Prefill = pool.Status()
	}
	return status
}

// estimated returns the status of estimates.
func estimated(w worker.Status) EstimatesStatus {
	e := EstimatesStatus{PageLoadMS: ms(w.PageLoad), TokenComputeMS: ms(w.TokenCompute)}
	e.PageComputeMS = float64(w.PageTokens) * e.TokenComputeMS
	if w.TokenCompute > 0 {
		e.BreakEvenTokens = e.PageLoadMS / e.TokenComputeMS
	}
	return e
}

// version is this program's, as far as it was built from a repository.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// snapshot is what the metrics read.
func (s *standIn) snapshot() metrics.Snapshot {
	now := s.board.get()
	snapshot := metrics.Snapshot{Version: version(), Engine: now.build, Sharing: now.sharing != nil, Reason: now.reason}
	if !snapshot.Sharing && snapshot.Reason == "" {
		snapshot.Reason = loadingReason
	}
	if now.worker != nil {
		snapshot.Worker = now.worker.Status()
	}
	if opened := s.store.Load(); opened != nil {
		status := opened.Status()
		snapshot.Breaker = &status
	}
	return snapshot
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (s *standIn) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(s.status()) // the client may have gone
}
