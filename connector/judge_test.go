package connector_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"ollamoon/store"
)

// evictedKeys is the counter of a master, which begins with each at 0.
var evictedKeys = regexp.MustCompile(`(?m)^master_evicted_key_count (\d+)$`)

// countEvicted adds what the master that runs has evicted.
func (s *soak) countEvicted(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := s.cluster.Metrics(ctx)
	if err != nil {
		t.Errorf("reading the master's counters: %v", err)
		return
	}
	found := evictedKeys.FindSubmatch(text)
	if found == nil {
		t.Error("the master does not say how much it evicted")
		return
	}
	n, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Error(err)
	}
	s.evicted.Add(n)
}

// retire keeps a worker's counts.
func (s *soak) retire(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.stats = append(s.mu.stats, w.Stats())
}

// judge logs what happened and fails the test if that was too little, or wrong.
func (s *soak) judge(t *testing.T) {
	t.Helper()
	rejected := map[string]int64{}
	var hit, discarded, failures int64
	for _, stats := range s.mu.stats {
		for reason, n := range stats.Rejected {
			rejected[reason] += n
		}
		hit += stats.PagesHit
		discarded += stats.PagesDiscarded
		failures += stats.DiscardFailures
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d loads accepted %d pages and missed %d; %d were stored; %d clients came and went\n",
		s.loads.Load(), s.accepted.Load(), s.missed.Load(), s.stored.Load(), s.sessions.Load())
	fmt.Fprintf(&text, "accepted with wrong bytes %d, changed afterwards %d\n", s.wrong.Load(), s.late.Load())
	fmt.Fprintf(&text, "rejected %v, discarded %d, discards failed %d\n", rejected, discarded, failures)
	fmt.Fprintf(&text, "outcomes %v\n", s.mu.outcomes)
	fmt.Fprintf(&text, "master restarted %d times, owner %d times; %d objects were evicted; damage %v\n",
		s.masters.Load(), s.owners.Load(), s.evicted.Load(), s.mu.damage)
	fmt.Fprintf(&text, "slowest call %v", time.Duration(s.slowest.Load()).Round(time.Millisecond))
	t.Log(text.String())
	if s.wrong.Load() != 0 || s.late.Load() != 0 {
		t.Error("wrong bytes were accepted")
	}
	if s.accepted.Load() < soakAccepted || hit != s.accepted.Load() {
		t.Errorf("%d pages were accepted, want %d; %d were counted as hit", s.accepted.Load(), soakAccepted, hit)
	}
	if s.masters.Load() < 2 || s.owners.Load() < 2 {
		t.Error("there were too few restarts")
	}
	if s.evicted.Load() == 0 {
		t.Error("nothing was evicted: the soak does not reach that")
	}
	for _, deed := range (&vandal{}).deeds() {
		if s.mu.damage[deed.name] == 0 {
			t.Errorf("nothing was %s: the soak does not reach that", deed.name)
		}
	}
	for _, reason := range []string{"sum", "foreign", "length"} {
		if rejected[reason] == 0 {
			t.Errorf("nothing was rejected as %s: the soak does not reach that", reason)
		}
	}
	if s.mu.outcomes["loading: "+store.ErrNotFound.Error()] == 0 || s.mu.outcomes["looking up: "+store.ErrUnavailable.Error()] == 0 {
		t.Error("nothing was missing, or never unavailable")
	}
	if slowest := time.Duration(s.slowest.Load()); slowest > soakCall {
		t.Errorf("a call took %v", slowest)
	}
}
