package simulate

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"go.uber.org/goleak"

	"ollamoon/internal/simulate/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plain are costs whose sums are easy.
var plain = Costs{Name: "plain", Prefill: 1000, Decode: 50, Beside: 0.001, Batch: 500, Slots: 4, KVBytes: 1000, Load: 100e6, Lookup: 0.001, Restore: 1e9, Save: 1e9}

// conversations returns a random trace: system prompts, conversations that go on
// and prompts of their own, in blocks of 16 tokens.
func randomTrace(t *testing.T, seed uint64, requests int) *trace.Trace {
	t.Helper()
	const block = 16
	random := rand.New(rand.NewPCG(seed, 1))
	tr := &trace.Trace{BlockTokens: block}
	next := int64(0)
	var begun [][]int64 // whole blocks of what came before
	for i := range requests {
		var blocks []int64
		if len(begun) > 0 && random.IntN(3) > 0 {
			before := begun[random.IntN(len(begun))]
			blocks = append(blocks, before[:random.IntN(len(before)+1)]...)
		}
		for range 1 + random.IntN(12) {
			blocks = append(blocks, next)
			next++
		}
		input := len(blocks)*block - random.IntN(block)
		tr.Requests = append(tr.Requests, trace.Request{TimeMS: int64(i/3) * 40, Input: input, Output: random.IntN(30), Blocks: blocks})
		begun = append(begun, blocks[:input/block])
	}
	return tr
}

func run(t *testing.T, p *trace.Pages, o Options) *Outcome {
	t.Helper()
	out, err := Run(t.Context(), p, o, nil)
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	return out
}

// Whatever the cluster, every request gets its answer, no more is reused than
// could be, no cache is larger than it may be, and the same options have the same
// outcome.
func TestEveryRequestEnds(t *testing.T) {
	for seed := range uint64(12) {
		p := randomTrace(t, seed, 200).Blocks()
		random := rand.New(rand.NewPCG(seed, 2))
		for _, policy := range Policies() {
			costs := plain
			costs.Slots = 1 + random.IntN(5)
			o := Options{
				Policy: policy, Workers: 1 + random.IntN(9), Load: []float64{0, 0.3, 0.9, 3}[random.IntN(4)], Seed: seed,
				WorkerCache: random.IntN(200), Store: random.IntN(p.Distinct + 1), Costs: costs,
				Saves: []Saves{"", SaveSteps, SaveOnce, SaveAfter}[random.IntN(4)],
			}
			out := run(t, p, o)
			if out.Requests != len(p.Prompts) || out.Hits > out.Ideal || out.OwnHits > out.Hits {
				t.Errorf("%+v: %+v", o, out)
			}
			if limit := float64(o.Store*p.Tokens) * costs.KVBytes; out.StoreBytes > limit {
				t.Errorf("%+v: the store holds %g bytes of %g", o, out.StoreBytes, limit)
			}
			if again := run(t, p, o); !reflect.DeepEqual(again, out) {
				t.Errorf("%+v: %+v, then %+v", o, out, again)
			}
			if out.TTFT.P50 <= 0 || out.TTFT.P50 > out.TTFT.P90 || out.TTFT.P90 > out.TTFT.P99 || out.TTFT.P99 > out.TTFT.Max || out.Total.Mean < out.TTFT.Mean {
				t.Errorf("%+v: first tokens %+v, last %+v", o, out.TTFT, out.Total)
			}
		}
	}
}

// A single worker that forgets nothing hits exactly what can be hit, whatever the
// policy and the load.
func TestOneWorkerIsIdeal(t *testing.T) {
	for seed := range uint64(6) {
		tr := randomTrace(t, seed, 300)
		cut, err := tr.Cut(8)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*trace.Pages{tr.Blocks(), cut} {
			for _, policy := range Policies() {
				for _, load := range []float64{0.1, 0.9, 2} {
					out := run(t, p, Options{Policy: policy, Workers: 1, Load: load, Seed: seed, WorkerCache: Unlimited, Store: Unlimited, Costs: plain})
					if out.Hits != p.Ideal() {
						t.Errorf("%s, load %g: %d hits of %d", policy, load, out.Hits, p.Ideal())
					}
				}
			}
		}
	}
}

// Without haste, workers that have only the store hit exactly what can be hit, and
// send each page once.
func TestStoreIsIdeal(t *testing.T) {
	p := randomTrace(t, 7, 200).Blocks()
	costs := plain
	costs.Restore, costs.Save, costs.Lookup, costs.Load = 0, 0, 0, 1e12
	out := run(t, p, Options{Policy: Shared, Workers: 5, Load: 0.001, Store: Unlimited, Costs: costs})
	if out.Hits != p.Ideal() || out.OwnHits != 0 || out.Evicted != 0 {
		t.Errorf("%d hits of %d, %d own, %d evicted", out.Hits, p.Ideal(), out.OwnHits, out.Evicted)
	}
	if want := float64(p.Distinct*p.Tokens) * costs.KVBytes; out.Published != want || out.StoreBytes != want {
		t.Errorf("published %g bytes, %g are there; want %g", out.Published, out.StoreBytes, want)
	}
}

// Seeds differ only in when requests of one tick come.
func TestSeed(t *testing.T) {
	p := randomTrace(t, 3, 100).Blocks()
	one, other := spread(p.Prompts, 1), spread(p.Prompts, 2)
	if reflect.DeepEqual(one, other) {
		t.Error("two seeds have the same times")
	}
	for i := range one {
		tick := float64(p.Prompts[i].TimeMS) / 1000
		if one[i] < tick || one[i] >= tick+0.04 || i > 0 && one[i] < one[i-1] {
			t.Errorf("request %d of the tick at %g s comes at %g s", i, tick, one[i])
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	p := randomTrace(t, 1, 3).Blocks()
	good := Options{Policy: Shared, Workers: 1, Load: 1, Costs: plain}
	for name, spoil := range map[string]func(*Options){
		"no worker":     func(o *Options) { o.Workers = 0 },
		"load":          func(o *Options) { o.Load = -1 },
		"no load":       func(o *Options) { o.Load = math.NaN() },
		"store":         func(o *Options) { o.Store = -1 },
		"worker's":      func(o *Options) { o.WorkerCache = -1 },
		"other saves":   func(o *Options) { o.Saves = "never" },
		"other policy":  func(o *Options) { o.Policy = "random" },
		"no speed":      func(o *Options) { o.Costs.Prefill = 0 },
		"no slot":       func(o *Options) { o.Costs.Slots = 0 },
		"infinite load": func(o *Options) { o.Costs.Load = math.Inf(1) },
	} {
		o := good
		spoil(&o)
		if _, err := Run(t.Context(), p, o, nil); !errors.Is(err, ErrOptions) && !errors.Is(err, ErrCosts) && !errors.Is(err, ErrPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	p := randomTrace(t, 1, 50).Blocks()
	grid := Grid{Policies: Policies(), Workers: []int{2, 3}, Loads: []float64{0.5}, Stores: []float64{1}, Costs: plain}
	if _, _, err := grid.Run(ctx, p, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
}
