package simulate

import (
	"math"
	"testing"

	"ollamoon/internal/simulate/trace"
)

// played returns what became of prompts that one worker got, in order.
func played(t *testing.T, o Options, p *trace.Pages) []*request {
	t.Helper()
	o.Workers, o.Load = 1, 0
	all := requests(p, 0, 0)
	c := newCluster(p, o)
	if err := c.run(t.Context(), all, func(int) {}); err != nil {
		t.Fatal(err)
	}
	return all
}

func pages(prompts ...trace.Prompt) *trace.Pages {
	p := &trace.Pages{Tokens: 100, Prompts: prompts}
	for _, q := range prompts {
		p.Total += len(q.Pages)
		p.Input += int64(q.Input)
	}
	return p
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s: %.9f s, want %.9f", what, got, want)
	}
}

// One request alone: its prompt at the speed of prefill, its answer at that of
// decode; the first token comes with the prompt.
func TestAlone(t *testing.T) {
	all := played(t, Options{Policy: RoundRobin, Costs: plain}, pages(trace.Prompt{Input: 2000, Output: 51}))
	near(t, "first token", all[0].first, 2)
	near(t, "last token", all[0].ended, 2+50/50.0)
}

// Prompts follow each other. While the second is computed, 500 tokens a batch, the
// first generates one token a batch; then both generate together.
func TestBeside(t *testing.T) {
	all := played(t, Options{Policy: RoundRobin, Costs: plain},
		pages(trace.Prompt{Input: 1000, Output: 101}, trace.Prompt{Input: 1000, Output: 101}))
	near(t, "first token of the first", all[0].first, 1)
	second := 1 + 2*(501/1000.0) // two batches, of 500 and one
	near(t, "first token of the second", all[1].first, second)
	each := 1/50.0 + 0.001 // beside one other
	first := second + (100-2)*each
	near(t, "last token of the first", all[0].ended, first)
	near(t, "last token of the second", all[1].ended, first+2/50.0)
}

// What the store has is loaded and restored; the rest is computed, saved in steps
// and published.
func TestSharing(t *testing.T) {
	costs := plain
	costs.Prefill, costs.Slots = 1000, 1
	shared := make([]int32, 20)
	for i := range shared {
		shared[i] = int32(i)
	}
	other := append(append([]int32{}, shared[:15]...), 30, 31, 32)
	o := Options{Policy: Shared, Costs: costs, Store: Unlimited}
	all := played(t, o, pages(trace.Prompt{Input: 2050, Output: 1, Pages: shared}, trace.Prompt{TimeMS: 10_000, Input: 1850, Output: 1, Pages: other}))
	// Steps end at pages 10 and 20: 1,000 and 2,000 tokens of 1,000 bytes are saved.
	near(t, "first token of the first", all[0].first, 0.001+2.050+(1000+2000)*1000/1e9)
	// 15 pages are loaded and restored, one step of three pages is saved.
	near(t, "first token of the second", all[1].first-10, 0.001+1.5e6/100e6+1.5e6/1e9+0.350+1.8e6/1e9)
	if all[1].loaded != 15 || all[1].reused != 15 || all[1].own {
		t.Errorf("%d pages loaded, %d reused, own: %v", all[1].loaded, all[1].reused, all[1].own)
	}
}

// Loading what is quicker to compute is left.
func TestSlowLink(t *testing.T) {
	costs := plain
	costs.Load = 0.9e6 // a token's thousand bytes take longer than a millisecond
	same := trace.Prompt{Input: 1050, Output: 1, Pages: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}
	later := same
	later.TimeMS = 60_000
	all := played(t, Options{Policy: Shared, Costs: costs, Store: Unlimited}, pages(same, later))
	if all[1].loaded != 0 || all[1].reused != 0 {
		t.Errorf("%d pages were loaded", all[1].loaded)
	}
}

// What a save after the answer changes: the first token does not wait, the slot
// does.
func TestSaveAfter(t *testing.T) {
	costs := plain
	costs.Slots, costs.Save = 1, 1e6
	prompt := trace.Prompt{Input: 1050, Output: 1, Pages: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}
	next := trace.Prompt{Input: 10, Output: 1}
	all := played(t, Options{Policy: Shared, Costs: costs, Store: Unlimited, Saves: SaveAfter}, pages(prompt, next))
	near(t, "first token", all[0].first, 0.001+1.050)
	near(t, "the next one's", all[1].first, 0.001+1.050+1+0.001+0.010)
}

// A request that continues another comes after its answer, and as soon as it would
// have come if that is later.
func TestConversationsGoOn(t *testing.T) {
	first := trace.Prompt{Input: 1050, Output: 101, Pages: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}
	second := trace.Prompt{TimeMS: 100, Input: 1150, Output: 1, Pages: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}
	third := trace.Prompt{TimeMS: 50_000, Input: 1250, Output: 1, Pages: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}
	all := played(t, Options{Policy: RoundRobin, Costs: plain, WorkerCache: Unlimited}, pages(first, second, third))
	near(t, "the second comes", all[1].arrived, all[0].ended)
	near(t, "the third comes", all[2].arrived, 50)
	if all[1].reused != 10 || all[2].reused != 11 {
		t.Errorf("%d and %d pages reused", all[1].reused, all[2].reused)
	}
}
