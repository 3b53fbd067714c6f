package standin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/cluster"
)

// A Mooncake Store whose master is not there at the start, comes, goes and comes
// again: requests are answered all the time, after a few failures the store is not
// asked any more, and prompts are shared when it is there.
func TestMasterThatComesAndGoes(t *testing.T) {
	programs, err := cluster.Programs(cluster.Version)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Programs: programs, Metadata: cluster.MetadataP2P, SegmentBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	c.StopMaster()
	r := standing(t, "OLLAMOON_STORE=mooncake://"+c.Master()+"?metadata=P2PHANDSHAKE&shared_memory=off", "OLLAMOON_DEADLINE=2s").serve(t, model(t)...)
	if s := r.status(); s.Sharing || !strings.Contains(s.Reason, "tried again") {
		t.Errorf("status %+v", s)
	}
	r.complete(prompt(45, "sheep"))

	until := func(what string, is func(Status) bool) Status {
		t.Helper()
		for deadline := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
			s := r.status()
			if is(s) {
				return s
			}
			if time.Now().After(deadline) {
				t.Fatalf("not %s: %+v", what, s)
			}
		}
	}
	if err := c.StartMaster(ctx); err != nil {
		t.Fatal(err)
	}
	s := until("shared", func(s Status) bool { return s.Sharing })
	if s.StoreState.Wire == "" || s.StoreState.Plane == "" {
		t.Errorf("status %+v", s.StoreState)
	}
	r.complete(prompt(45, "goat"))
	until("published", func(s Status) bool { return s.Pages.PagesPublished >= 1 })

	c.KillMaster()
	for _, animal := range []string{"cow", "pig", "hen", "dog", "cat", "owl"} {
		r.complete(prompt(45, animal))
	}
	s = until("open", func(s Status) bool { return s.StoreState.Breaker != "closed" })
	if s.StoreState.Opened == 0 || s.StoreState.LastError == "" || len(s.Errors) == 0 || !s.Sharing {
		t.Errorf("status %+v", s)
	}
	before := r.metric(`store_call_seconds_count{operation="exist"}`)
	began := time.Now()
	r.complete(prompt(20, "short"))
	t.Logf("with an open breaker an answer takes %v; %v calls, %v refused", time.Since(began), before, r.metric(`store_calls_refused_total`))

	if err := c.StartMaster(ctx); err != nil {
		t.Fatal(err)
	}
	published, n := s.Pages.PagesPublished, 0
	for deadline := time.Now().Add(wait); r.status().Pages.PagesPublished == published; n++ {
		if time.Now().After(deadline) {
			t.Fatalf("nothing is published: %+v", r.status())
		}
		r.complete(prompt(45, fmt.Sprint("cow", n)))
	}
	until("closed", func(s Status) bool { return s.StoreState.Breaker == "closed" })
}
