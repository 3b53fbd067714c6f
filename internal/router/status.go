package router

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// Status is what a router says of itself.
type Status struct {
	Surface Surface        `json:"surface"`
	Policy  string         `json:"policy"`
	Queue   QueueStatus    `json:"queue"`
	Costs   CostsStatus    `json:"costs"`
	Workers []WorkerStatus `json:"workers"`
}

// QueueStatus is how many requests wait, and may.
type QueueStatus struct {
	Waiting int `json:"waiting"`
	Limit   int `json:"limit"`
}

// CostsStatus are the times that the policy counts with.
type CostsStatus struct {
	PrefillMS    float64 `json:"prefill_token_ms"`
	LoadMS       float64 `json:"load_token_ms"`
	DecodeMS     float64 `json:"decode_token_ms"`
	AnswerTokens int     `json:"answer_tokens"`
}

// WorkerStatus is what is known of a worker.
type WorkerStatus struct {
	ID      string   `json:"id"`
	URL     string   `json:"url"`
	State   state    `json:"state"`
	Reason  string   `json:"reason,omitempty"`
	Models  []string `json:"models"`
	Slots   int      `json:"slots"`
	Running int      `json:"running"`
	// Tokens expected to be left, of what runs.
	PrefillTokens  int `json:"prefill_tokens"`
	GenerateTokens int `json:"generate_tokens"`
	// What it shares; empty where it does not.
	Namespace  string `json:"namespace,omitempty"`
	PageTokens int    `json:"page_tokens,omitempty"`
}

func (f *fleet) status() Status {
	costs := f.costs.now()
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Status{
		Surface: f.config.Surface, Policy: f.config.Policy,
		Queue:   QueueStatus{Waiting: len(f.waiting), Limit: f.config.Queue},
		Costs:   CostsStatus{PrefillMS: ms(costs.Prefill), LoadMS: ms(costs.Load), DecodeMS: ms(costs.Decode), AnswerTokens: f.costs.output(0)},
		Workers: []WorkerStatus{},
	}
	for _, w := range f.workers {
		view := w.view(f.config.Slots)
		status := WorkerStatus{
			ID: w.spec.ID, URL: w.spec.URL.String(), State: w.state, Reason: w.reason,
			Models: slices.Concat([]string{}, w.facts.models), Slots: view.Slots, Running: view.Running,
			PrefillTokens: view.Prefill, GenerateTokens: view.Generate,
		}
		if w.facts.shares() {
			status.Namespace, status.PageTokens = w.facts.status.Namespace, w.facts.status.PageTokens
		}
		s.Workers = append(s.Workers, status)
	}
	return s
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(value) // the client may have gone
}
