//go:build linux

package netlab

import (
	"context"
	"os"
	"testing"
	"time"
)

// shortTokens are a page and enough to compute.
const shortTokens = 336

// outage is how long nothing comes through.
func outage() time.Duration {
	if os.Getenv("OLLAMOON_FULL") == "1" {
		return 30 * time.Second
	}
	return 7 * time.Second
}

// Five machines with links of their own give the answers of one llama-server, bit
// for bit, whatever becomes of the links and of the store.
func TestMachines(t *testing.T) {
	s := newSite(t)
	prompts := s.prompts(2, shortTokens, "List")
	for _, part := range []struct {
		name string
		run  func(*site, []prompt)
	}{
		{"prefill apart over 1 Gbit/s", (*site).prefillsApart},
		{"loads over 1 Gbit/s", (*site).loads},
		{"a link drops everything", (*site).linkDrops},
		{"the owner leaves and comes back", (*site).ownerLeaves},
		{"computes over 2 Mbit/s", (*site).computes},
	} {
		t.Run(part.name, func(t *testing.T) {
			on := *s
			on.t = t
			begin := time.Now()
			part.run(&on, prompts)
			t.Logf("%v; estimates %+v", time.Since(begin).Round(time.Millisecond), on.status(s.decode).Estimates)
		})
		if t.Failed() {
			return
		}
	}
}

// prefillsApart: a long prompt is computed by the prefill worker and loaded by the
// one that got it.
func (s *site) prefillsApart([]prompt) {
	long := s.prompts(1, 600, "Book")[0]
	if got := s.routed(long); !got.loaded {
		s.t.Error("nothing was loaded")
	}
	if published, hit := s.status(s.prefill).Pages.PagesPublished, s.status(s.decode).Pages.PagesHit; published != 2 || hit != 2 {
		s.t.Errorf("%d pages published, %d loaded, want 2", published, hit)
	}
}

// loads: at 1 Gbit/s, and with the master far away, loading a page is expected to be
// quicker than computing it, and done.
func (s *site) loads(prompts []prompt) {
	s.publish(prompts...)
	for range 2 { // the second time with estimates of both
		for _, p := range prompts {
			if got := s.routed(p); !got.loaded {
				s.t.Errorf("nothing was loaded: %+v", s.status(s.decode).Estimates)
			} else if got.lookup < 2*distance {
				s.t.Errorf("a lookup took %v, and the way to the master %v", got.lookup, distance)
			}
		}
	}
	if e := s.status(s.decode).Estimates; e.PageLoadMS <= 0 || e.PageComputeMS > 0 && e.PageLoadMS >= e.PageComputeMS {
		s.t.Errorf("loading is expected not to pay: %+v", e)
	}
}

// linkDrops: while nothing comes from the store and the prefill worker, answers do,
// each within the store's deadline and what computing takes; then prompts are
// loaded again.
func (s *site) linkDrops(prompts []prompt) {
	before := s.status(s.decode).StoreState.Opened
	others := []*Machine{s.way, s.owner, s.prefill}
	if err := s.decode.Cut(others...); err != nil {
		s.t.Fatal(err)
	}
	const spare = 8 * time.Second // of a loaded machine
	count, longest := 0, time.Duration(0)
	for begin := time.Now(); time.Since(begin) < outage(); count++ {
		p := prompts[count%len(prompts)]
		got := s.routed(p)
		longest = max(longest, got.took)
		if got.loaded || got.took > deadline+4*p.want.took+spare {
			s.t.Errorf("an answer after %v, where a llama-server takes %v; loaded: %t", got.took, p.want.took, got.loaded)
		}
	}
	// A long outage opens the breaker, after which answers are as quick as without a store.
	if opened := s.status(s.decode).StoreState.Opened > before; opened != (count > 2) {
		s.t.Errorf("after %d calls that failed: %+v", count, s.status(s.decode).StoreState)
	}
	if err := s.decode.Mend(others...); err != nil {
		s.t.Fatal(err)
	}
	mended := time.Now()
	s.untilLoaded(prompts)
	s.t.Logf("%d answers meanwhile, the longest after %v; loaded again %v later", count, longest, time.Since(mended))
}

// untilLoaded asks until something is loaded.
func (s *site) untilLoaded(prompts []prompt) {
	s.t.Helper()
	i := 0
	s.until("a prompt is loaded", func() bool {
		i++
		return s.routed(prompts[i%len(prompts)]).loaded
	})
}

// ownerLeaves: without the owner of the pages they are computed; when one has come
// back, which has none of them, they are published and loaded again.
func (s *site) ownerLeaves(prompts []prompt) {
	s.store.KillOwner()
	if got := s.routed(prompts[0]); got.loaded {
		s.t.Error("pages of an owner that is gone were loaded")
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), wait)
	defer cancel()
	if err := s.store.StartOwner(ctx); err != nil {
		s.t.Fatal(err)
	}
	for _, p := range prompts {
		s.until("a prompt is published and loaded", func() bool {
			s.ask(url(s.prefill), p.tokens)
			return s.routed(p).loaded
		})
	}
}

// computes: when the link has become so slow that loading takes longer than
// computing, that is learnt from one load, and then nothing is loaded.
func (s *site) computes(prompts []prompt) {
	if err := s.decode.Shape(2 * Mbit); err != nil {
		s.t.Fatal(err)
	}
	s.routed(prompts[0])
	e := s.status(s.decode).Estimates
	if e.PageLoadMS <= e.PageComputeMS {
		s.t.Errorf("loading is expected to pay: %+v", e)
	}
	before := s.status(s.decode).Pages
	if got := s.routed(prompts[1]); got.loaded {
		s.t.Error("it was loaded")
	}
	if after := s.status(s.decode).Pages; after.PagesLookedUp != before.PagesLookedUp {
		s.t.Errorf("the store was asked: %+v", after)
	}
	if os.Getenv("OLLAMOON_FULL") != "1" {
		return
	}
	// The link is tried again after a while.
	if err := s.decode.Shape(Gbit); err != nil {
		s.t.Fatal(err)
	}
	s.untilLoaded(prompts)
}
