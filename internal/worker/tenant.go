package worker

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"ollamoon/connector"
	"ollamoon/prefix"
)

// tenants are the sharers of tenants, by name.
type tenants struct {
	mu struct {
		sync.Mutex
		by map[string]*sharer
	}
}

// of returns the sharer of a tenant: it has pages in common with nobody but those
// of prefixes that are declared common. "" is no tenant's.
func (s *sharer) of(tenant string) (*sharer, error) {
	if tenant == "" {
		return s, nil
	}
	s.tenants.mu.Lock()
	defer s.tenants.mu.Unlock()
	if known := s.tenants.mu.by[tenant]; known != nil {
		return known, nil
	}
	own := *s.Sharing
	own.Namespace.Tenant = fmt.Sprintf("%s/%s", s.Namespace.Tenant, tenant)
	made, err := newSharer(&own, &prefix.Common{Model: s.keys.Model, Prompts: s.Common})
	if err != nil {
		return nil, err
	}
	made.tenant, made.estimates, made.inflight = tenant, s.estimates, s.inflight
	if s.tenants.mu.by == nil {
		s.tenants.mu.by = map[string]*sharer{}
	}
	s.tenants.mu.by[tenant] = made
	return made, nil
}

// stats are the counts of all tenants.
func (s *sharer) stats() connector.Stats {
	total := s.cache.Stats()
	s.tenants.mu.Lock()
	defer s.tenants.mu.Unlock()
	for _, t := range s.tenants.mu.by {
		total = plus(total, t.cache.Stats())
	}
	return total
}

// sharer returns what shares a tenant's prompts, or nil.
func (w *Worker) sharer(tenant string) *sharer {
	root := w.share.Load()
	if root == nil {
		return nil
	}
	s, err := root.of(tenant)
	if err != nil {
		w.config.Logger.Warn("a tenant's prompts are not shared", "error", err)
		return nil
	}
	return s
}

// tenant returns whose a request is, or answers it when it is nobody's.
func (w *Worker) tenant(rw http.ResponseWriter, r *http.Request) (tenant string, ok bool) {
	if w.config.Tenant == nil {
		return "", true
	}
	tenant, err := w.config.Tenant(r)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusUnauthorized)
		return "", false
	}
	return tenant, true
}

// own makes slots a tenant's: what they hold of another tenant's prompts is
// erased, so that it can neither be reused nor timed.
func (w *Worker) own(ctx context.Context, slots []*slot, tenant string) error {
	for _, s := range slots {
		if s.tenant == tenant {
			continue
		}
		if s.used() {
			if err := w.config.Engine.Erase(ctx, s.id); err != nil {
				s.forget()
				return fmt.Errorf("emptying a slot of another tenant: %w", err)
			}
		}
		s.hold(nil, 0)
		s.tenant = tenant
	}
	return nil
}
