package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"ollamoon/internal/trust"
)

// errLoading: a worker is there and loads its model.
var errLoading = errors.New("it loads its model")

// maxAnswer bounds what is read of a worker's answer to the router itself.
const maxAnswer = 8 << 20

// factsEvery is after how many health checks a worker is asked again what it is.
const factsEvery = 5

// A prober asks workers for their health and what they are.
type prober struct {
	config Config
	client *http.Client
}

// check asks a worker for its health and, if full, for what it is.
func (p *prober) check(ctx context.Context, s Spec, full bool) (*facts, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.config.Timeout, fmt.Errorf("it does not answer within %v", p.config.Timeout))
	defer cancel()
	path := "/health"
	if p.config.Surface == Ollama {
		path = "/api/version"
	}
	if _, err := p.get(ctx, s, path, nil); err != nil || !full {
		return nil, err
	}
	if p.config.Surface == Ollama {
		return p.ollamaFacts(ctx, s)
	}
	return p.llamaFacts(ctx, s)
}

func (p *prober) ollamaFacts(ctx context.Context, s Spec) (*facts, error) {
	var tags struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if _, err := p.get(ctx, s, "/api/tags", &tags); err != nil {
		return nil, err
	}
	f := &facts{}
	for _, m := range tags.Models {
		f.models = append(f.models, m.Name)
		f.keys = append(f.keys, Ollama.modelKey(m.Name))
	}
	return f, nil
}

func (p *prober) llamaFacts(ctx context.Context, s Spec) (*facts, error) {
	var props struct {
		TotalSlots int `json:"total_slots"`
	}
	var models struct {
		Data []struct {
			ID      string   `json:"id"`
			Aliases []string `json:"aliases"`
		} `json:"data"`
	}
	f := &facts{}
	if _, err := p.get(ctx, s, "/props", &props); err != nil && !isStatus(err) {
		return nil, err
	}
	if _, err := p.get(ctx, s, "/v1/models", &models); err != nil && !isStatus(err) {
		return nil, err
	}
	f.slots = props.TotalSlots
	for _, m := range models.Data {
		f.models = append(f.models, m.ID)
		f.keys = append(append(f.keys, m.ID), m.Aliases...)
	}
	return f, p.trust(ctx, s, f)
}

// trust reads the status of a worker of ours, which proves that it has the secret.
func (p *prober) trust(ctx context.Context, s Spec, f *facts) error {
	status := &workerStatus{}
	nonce := newNonce()
	header, err := p.getWith(ctx, s, "/ollamoon/status", http.Header{trust.NonceHeader: {nonce}}, status)
	switch {
	case isStatus(err) && p.config.Secret == nil:
		return nil // a server of another kind, or one that asks for a key that we have not
	case isStatus(err):
		return fmt.Errorf("%w: it is no worker of Ollamoon or refuses the secret: %w", ErrMismatch, err)
	case err != nil:
		return err
	}
	if p.config.Secret != nil {
		if err := p.config.Secret.Check(nonce, header.Get(trust.ProofHeader)); err != nil {
			return fmt.Errorf("%w: %w", ErrMismatch, err)
		}
	}
	f.status = status
	return nil
}

// A statusError is an answer that is not 200.
type statusError struct {
	path string
	code int
}

func (e *statusError) Error() string { return fmt.Sprintf("%s answers with status %d", e.path, e.code) }

func isStatus(err error) bool {
	var s *statusError
	return errors.As(err, &s)
}

func (p *prober) get(ctx context.Context, s Spec, path string, into any) (http.Header, error) {
	return p.getWith(ctx, s, path, http.Header{}, into)
}

// getWith reads a JSON answer.
func (p *prober) getWith(ctx context.Context, s Spec, path string, header http.Header, into any) (http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL.String()+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header = header
	p.authenticate(r, "")
	answer, err := p.client.Do(r)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, causeOf(ctx, fmt.Errorf("reading %s: %w", path, err))
	case answer.StatusCode == http.StatusServiceUnavailable && path == "/health":
		return nil, errLoading
	case answer.StatusCode != http.StatusOK:
		return nil, &statusError{path, answer.StatusCode}
	case into == nil:
		return answer.Header, nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return answer.Header, nil
}

// authenticate adds what workers ask of a router.
func (p *prober) authenticate(r *http.Request, tenant string) {
	if p.config.WorkerKey != "" {
		r.Header.Set("Authorization", "Bearer "+p.config.WorkerKey)
	}
	if p.config.Secret != nil {
		p.config.Secret.Sign(r, tenant, time.Now())
	}
}

// causeOf is a context's cause in the place of an error that it has led to.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// watch asks a worker for its health until ctx is done.
func (f *fleet) watch(ctx context.Context, p *prober, w *worker) {
	ticker := time.NewTicker(f.config.Interval)
	defer ticker.Stop()
	for round := 0; ; round++ {
		known := f.state(w) == stateHealthy
		facts, err := p.check(ctx, w.spec, !known || round%factsEvery == 0)
		if ctx.Err() != nil {
			return
		}
		f.checked(w, facts, err)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.kick:
		}
	}
}

func (f *fleet) state(w *worker) state {
	f.mu.Lock()
	defer f.mu.Unlock()
	return w.state
}
