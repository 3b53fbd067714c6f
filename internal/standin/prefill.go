package standin

import (
	"context"
	"net/http"

	"ollamoon/connector"
	"ollamoon/internal/prefill"
	"ollamoon/internal/trust"
	"ollamoon/internal/worker"
)

// secret returns what this worker has in common with others, or nothing.
func (s *standIn) secret() (trust.Secret, error) {
	if s.settings.SecretFile == "" {
		return nil, nil
	}
	return trust.ReadSecret(s.settings.SecretFile)
}

// pages is what both sides of a prefill have to agree on.
func pages(sharing *worker.Sharing) prefill.Identity {
	return prefill.Identity{
		Version: prefill.Version, PageTokens: worker.PageTokens,
		Namespace: sharing.Namespace.Model(), Words: sharing.Namespace.String(),
	}
}

// asks returns the pool of prefill workers that this worker asks, or nil. That one
// of them shares other pages is an error that ends the run.
func (s *standIn) asks(ctx context.Context, sharing *worker.Sharing) (*prefill.Pool, error) {
	if len(s.settings.Prefill) == 0 {
		return nil, nil
	}
	secret, err := s.secret()
	if err != nil {
		return nil, err
	}
	pool, err := prefill.New(prefill.Config{URLs: s.settings.Prefill, Identity: pages(sharing), Secret: secret, Logger: s.log})
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
func (s *standIn) computes(sharing *worker.Sharing) error {
	if s.settings.Role != connector.Prefill {
		return nil
	}
	secret, err := s.secret()
	if err != nil {
		return err
	}
	handler := http.Handler(&prefill.Handler{Computer: s.worker, Identity: pages(sharing), Secret: secret})
	s.gate.prefill.Store(&handler)
	return nil
}
