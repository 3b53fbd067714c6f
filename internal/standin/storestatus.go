package standin

import (
	"time"

	"ollamoon/store"
	"ollamoon/store/mooncake"
)

// StoreStatus says whether the store is asked.
type StoreStatus struct {
	// Breaker is "not opened" before there is a store; then "closed" while it is
	// asked, "open" while it is not, "half-open" while one call tries it.
	Breaker     string     `json:"breaker"`
	Since       *time.Time `json:"since,omitempty"`
	Until       *time.Time `json:"until,omitempty"` // from when on an open one is tried
	LastError   string     `json:"last_error,omitempty"`
	LastErrorAt *time.Time `json:"last_error_at,omitempty"`
	Opened      int64      `json:"opened"`         // times that the breaker opened
	Refused     int64      `json:"refused"`        // calls that it did not let through
	Wire        string     `json:"wire,omitempty"` // the version of Mooncake that is spoken
	Plane       string     `json:"plane,omitempty"`
}

// storeStatus returns the store's status.
func (s *standIn) storeStatus() StoreStatus {
	opened := s.store.Load()
	if opened == nil {
		return StoreStatus{Breaker: "not opened"}
	}
	now := opened.Status()
	status := StoreStatus{
		Breaker: now.State.String(), Since: given(now.Since), Until: given(now.Until), LastErrorAt: given(now.LastErrorAt),
		Opened: now.Opened, Refused: now.Refused,
	}
	if now.LastError != nil {
		status.LastError = now.LastError.Error()
	}
	if m, ok := beneath(opened).(*mooncake.Store); ok {
		status.Wire, status.Plane = m.Client().WireVersion(), m.Client().Plane()
	}
	return status
}

// beneath returns the store under those that watch it.
func beneath(s store.Store) store.Store {
	for {
		watching, ok := s.(interface{ Beneath() store.Store })
		if !ok {
			return s
		}
		s = watching.Beneath()
	}
}

func given(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
