package prefill

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"ollamoon/internal/trust"
)

// Bounds on what a prefill worker takes.
const (
	maxBodyBytes = 64 << 20 // a token takes at most twelve bytes of JSON
	maxAsks      = 64       // at a time, those that wait for a slot among them
	heartbeat    = time.Second
)

// A Computer computes prompts and publishes their pages; it is a worker.
type Computer interface {
	// Compute has the missing pages of a tenant's prompt computed and published, and calls
	// published with how many tokens' pages are there, after each step.
	Compute(ctx context.Context, tenant string, tokens []int32, published func(tokens int)) error
	// Outstanding is how many of a prompt's tokens Compute has to compute at most.
	Outstanding(tokens int) int
	// TokenTime is what a token takes; 0 is not known yet.
	TokenTime() time.Duration
}

// A Handler serves Path.
type Handler struct {
	Computer Computer
	Identity Identity
	// Secret is what both sides have in common; empty: whoever reaches the port may
	// ask.
	Secret trust.Secret

	asks        atomic.Int64
	outstanding atomic.Int64
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(h.Secret) > 0 {
		if _, err := h.Secret.Tenant(r, time.Now()); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if nonce := r.Header.Get(trust.NonceHeader); nonce != "" {
			w.Header().Set(trust.ProofHeader, h.Secret.Prove(nonce))
		}
	}
	switch r.Method {
	case http.MethodGet:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(h.info()) // the client may have gone
	case http.MethodPost:
		h.compute(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "use GET or POST", http.StatusMethodNotAllowed)
	}
}

func (h *Handler) info() Info {
	return Info{
		Identity: h.Identity, Outstanding: int(h.outstanding.Load()),
		TokenMS: float64(h.Computer.TokenTime()) / float64(time.Millisecond),
	}
}

func (h *Handler) compute(w http.ResponseWriter, r *http.Request) {
	var a ask
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBodyBytes)).Decode(&a); err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err := h.Identity.Matches(a.Identity); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	if h.asks.Add(1) > maxAsks {
		h.asks.Add(-1)
		w.Header().Set("Retry-After", "1")
		http.Error(w, "more than "+strconv.Itoa(maxAsks)+" prompts wait here", http.StatusServiceUnavailable)
		return
	}
	defer h.asks.Add(-1)
	w.Header().Set("Content-Type", "application/x-ndjson")
	h.tell(r.Context(), w, a.Tenant, a.Tokens)
}

// tell has a prompt computed and writes lines meanwhile.
func (h *Handler) tell(ctx context.Context, w http.ResponseWriter, tenant string, tokens []int32) {
	left := int64(h.Computer.Outstanding(len(tokens)))
	h.outstanding.Add(left)
	var mu sync.Mutex // of left
	published := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		now := int64(max(0, h.Computer.Outstanding(len(tokens))-n))
		h.outstanding.Add(now - left)
		left = now
	}
	defer func() { published(len(tokens)) }()

	steps := make(chan int, 64)
	done := make(chan error, 1)
	go func() {
		done <- h.Computer.Compute(ctx, tenant, tokens, func(n int) {
			published(n)
			select {
			case steps <- n:
			default: // the next line tells more
			}
		})
	}()
	out := json.NewEncoder(w)
	control := http.NewResponseController(w)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	at := 0
	for {
		last := line{}
		select {
		case n := <-steps:
			at = max(at, n)
		case <-beat.C:
		case err := <-done:
			last.Done = err == nil
			if err != nil {
				last.Error = err.Error()
				if errors.Is(err, context.Canceled) {
					return
				}
			}
			for len(steps) > 0 {
				at = max(at, <-steps)
			}
		}
		last.Published = at
		_ = out.Encode(last) // the client may have gone: its context ends
		_ = control.Flush()
		if last.Done || last.Error != "" {
			return
		}
	}
}
