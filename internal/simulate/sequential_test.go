package simulate

import (
	"testing"

	"ollamoon/internal/simulate/trace"
)

// Requests that follow each other hit what those before have left: of their own
// worker all full pages, of another what left enough to compute behind it.
func TestSequential(t *testing.T) {
	requests := []trace.Request{
		{Input: 4*256 + 26, Output: 3, Blocks: []int64{0, 1, 2, 3, 4}},
		{Input: 5*256 + 70, Output: 3, Blocks: []int64{0, 1, 2, 3, 5, 6}},
		{Input: 3 * 256, Output: 3, Blocks: []int64{0, 1, 2}},
	}
	p, err := (&trace.Trace{BlockTokens: 256, Requests: requests}).Cut(256)
	if err != nil {
		t.Fatal(err)
	}
	for saves, want := range map[Saves][]Served{
		SaveSteps: {{Published: 3}, {Hits: 4, Own: true, Published: 2}, {Hits: 2, Own: true}},
		SaveAfter: {{Published: 4}, {Hits: 4, Own: true, Published: 1}, {Hits: 2, Own: true}},
	} {
		out := run(t, p, Options{Policy: Shared, Workers: 1, Load: 0.5, Store: Unlimited, WorkerCache: Unlimited, Costs: plain, Saves: saves, Sequential: true})
		for i, got := range out.Each {
			if got.TTFT <= 0 {
				t.Errorf("request %d has its first token after %g s", i, got.TTFT)
			}
			if got.TTFT = 0; got != want[i] {
				t.Errorf("%s: request %d: %+v, want %+v", saves, i, got, want[i])
			}
		}
	}
}

// With the store alone, a page that left too few tokens behind it is computed
// again; and nobody waits for another.
func TestSequentialByTheStore(t *testing.T) {
	p, err := (&trace.Trace{BlockTokens: 256, Requests: []trace.Request{
		{Input: 4*256 + 26, Output: 3, Blocks: []int64{0, 1, 2, 3, 4}},
		{TimeMS: 1, Input: 5*256 + 70, Output: 3, Blocks: []int64{0, 1, 2, 3, 5, 6}},
	}}).Cut(256)
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, p, Options{Policy: Shared, Workers: 2, Store: Unlimited, Costs: plain, Sequential: true})
	if got := out.Each[1]; got.Hits != 3 || got.Own || got.Published != 2 {
		t.Errorf("%+v", got)
	}
	const bytes, save = 1000, 1e9
	near(t, "first token", out.Each[1].TTFT, 0.001+3*256*bytes/100e6+3*256*bytes/1e9+float64(2*256+70)/1000+5*256*bytes/save)
}
