package standin

import (
	"context"
	"net/http"

	"ollamoon/connector"
	"ollamoon/internal/prefill"
	"ollamoon/internal/trust"
	"ollamoon/internal/worker"
)

// proving lets a router that asks with a nonce know that this worker has the
// secret they have in common.
func proving(secret trust.Secret, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if nonce := r.Header.Get(trust.NonceHeader); nonce != "" && len(secret) > 0 {
			w.Header().Set(trust.ProofHeader, secret.Prove(nonce))
		}
		h.ServeHTTP(w, r)
	})
}

// pages is what both sides of a prefill have to agree on.
func pages(sharing *worker.Sharing) prefill.Identity {
	return prefill.Identity{
		Version: prefill.Version, PageTokens: sharing.Namespace.PageTokens,
		Namespace: sharing.Namespace.Model(), Words: sharing.Namespace.String(),
		Common: digest(sharing.Common),
	}
}

// asks returns the pool of prefill workers that this worker asks, or nil. That one
// of them shares other pages is an error that ends the run.
func (s *standIn) asks(ctx context.Context, sharing *worker.Sharing) (*prefill.Pool, error) {
	if len(s.settings.Prefill) == 0 {
		return nil, nil
	}
	pool, err := prefill.New(prefill.Config{URLs: s.settings.Prefill, Identity: pages(sharing), Secret: s.secret, Logger: s.log})
	if err != nil {
		return nil, err
	}
	if err := pool.Check(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// asksFor has prefill workers asked for other pages from now on.
func (s *standIn) asksFor(sharing *worker.Sharing) {
	if pool := s.pool.Load(); pool != nil {
		pool.Share(pages(sharing))
	}
}

// computes lets a prefill worker be asked.
func (s *standIn) computes(sharing *worker.Sharing) {
	if s.settings.Role != connector.Prefill {
		return
	}
	handler := http.Handler(&prefill.Handler{Computer: s.worker, Identity: pages(sharing), Secret: s.secret})
	s.gate.prefill.Store(&handler)
}
