package bench

import (
	"errors"
	"math"
	"strings"
	"testing"

	"ollamoon/internal/results"
)

func ttftOptions(t *testing.T) TTFTOptions {
	return TTFTOptions{
		Worker: self(t, roleWorker), Tokens: []int{513, 257}, Rounds: 1, Turns: 1, Requests: 1, Answer: 4, Prefill: []float64{100},
	}
}

// A whole run on a real store with a real model: its file follows the schema, and
// has every figure.
func TestRunTTFT(t *testing.T) {
	o := options(t)
	o.SegmentBytes = 64 << 20
	got, err := RunTTFT(t.Context(), o, ttftOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/ttft.json"
	if err := got.Write(path); err != nil {
		t.Fatal(err)
	}
	f, err := results.ReadTTFT(path)
	if err != nil {
		t.Fatal(err)
	}
	const smollm2 = 2 * 30 * 3 * 64 * 2 // keys and values, layers, heads, elements, bytes
	if f.Model.TokenBytes != smollm2 || f.Versions["llama"] == "" || f.Versions["mooncake"] == "" || f.Command != o.Command {
		t.Errorf("%+v, %+v", f.Model, f.Versions)
	}
	if len(f.Prompts) != 2 || f.Prompts[0].Tokens != 257 || f.Prompts[1].Tokens != 513 {
		t.Fatalf("prompts %+v", f.Prompts)
	}
	for _, p := range f.Prompts {
		if p.Shared != p.Tokens-1 || p.Bytes != int64(p.Shared/256)*(256*smollm2+80) || p.Publishing.Tokens != p.Shared+64 {
			t.Errorf("%+v", p)
		}
		for _, r := range []results.Reuse{p.TCP, p.File} {
			if b := r.Breakdown; b.Lookup <= 0 || b.Load <= 0 || b.Restore <= 0 || b.Compute <= 0 || r.TTFT.Min <= 0 {
				t.Errorf("%d tokens: %+v", p.Tokens, r)
			}
			if want := p.Cold.P50 / r.TTFT.P50; math.Abs(r.OfCold-want) > 1e-9 || r.OfPrimed <= 0 {
				t.Errorf("%d tokens: %g times quicker, not %g", p.Tokens, r.OfCold, want)
			}
		}
		if p.Primed.P50 <= 0 || p.PrimedCompute <= 0 || p.Publishing.Cold.P50 <= 0 || p.Publishing.Publishing.P50 <= 0 {
			t.Errorf("%d tokens: %+v", p.Tokens, p)
		}
	}
	if o := f.Overhead; o.Short.Stock.P50 <= 0 || o.Short.None.P50 <= 0 || o.Short.Sharing.P50 <= 0 || o.Miss.Pages != 1 ||
		o.Miss.Stock.P50 <= 0 || o.Miss.Sharing.P50 <= 0 || o.Decode.Stock <= 0 || o.Decode.None <= 0 || o.Decode.Sharing <= 0 {
		t.Errorf("%+v", o)
	}
	if m := f.Memory; m.Tokens != 513 || m.Publisher.PeakBytes < m.Publisher.NowBytes || m.Loader.NowBytes <= 0 {
		t.Errorf("%+v", m)
	}
	if len(f.BreakEven.Rows) != 2+3 || len(f.Goals) == 0 {
		t.Errorf("%+v, %+v", f.BreakEven, f.Goals)
	}
	var summary strings.Builder
	if err := SummarizeTTFT(&summary, f); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + summary.String())
}

func TestRunTTFTRefusesBadOptions(t *testing.T) {
	for name, change := range map[string]func(*TTFTOptions){
		"no prompts":          func(o *TTFTOptions) { o.Tokens = nil },
		"prompts of one page": func(o *TTFTOptions) { o.Tokens = []int{513, 256} },
		"no rounds":           func(o *TTFTOptions) { o.Rounds = 0 },
		"no speed":            func(o *TTFTOptions) { o.Answer = 1 },
		"no prefill":          func(o *TTFTOptions) { o.Prefill = []float64{0} },
	} {
		o := ttftOptions(t)
		change(&o)
		if _, err := RunTTFT(t.Context(), options(t), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where loading breaks even, by hand: 1 MB a token.
func TestBreakEven(t *testing.T) {
	b := results.BreakEven{FixedMS: 100, LoadMBs: 1000, RestoreMBs: 2000}
	r := row(b, "a model", 1e6, 100) // 10 ms a token, of which 0.5 are restoring
	if got, want := r.LinkMBs, 1/0.0095; math.Abs(got-want) > 1e-9 {
		t.Errorf("the slowest link is %g MB/s, not %g", got, want)
	}
	// 8.5 ms a token are left at 1000 MB/s, so 100 ms are made up for by 12 tokens; at
	// 125 MB/s it is 1.5 ms and 67 tokens; quicker links are no quicker than what was measured.
	for i, want := range []int{256, 256, 256, 256} {
		if r.Tokens[i].Tokens != want {
			t.Errorf("%+v, not %d tokens", r.Tokens[i], want)
		}
	}
	b.FixedMS = 4000
	for i, want := range []int{512, 2816, 512, 512} { // 471 tokens, 2667
		if got := leastTokens(b, 1, 100, r.Tokens[i].LinkMBs); got != want {
			t.Errorf("at %g MB/s: %d tokens, not %d", r.Tokens[i].LinkMBs, got, want)
		}
	}
	if r := row(b, "a quick one", 1e6, 2500); r.LinkMBs != 0 || r.Tokens[0].Tokens != 0 {
		t.Errorf("restoring takes longer than computing: %+v", r)
	}
	for i, want := range []int{32768, 131072, 327680} {
		if got := presets[i].layout.Bytes(); got != want {
			t.Errorf("%s: %d bytes a token, not %d", presets[i].name, got, want)
		}
	}
}

func TestTTFTGoals(t *testing.T) {
	at := func(ms float64) results.Spread { return results.Spread{Min: ms, P50: ms, Mean: ms, Max: ms} }
	f := &results.TTFT{
		Prompts: []results.Prompt{{
			Tokens: 1793, TCP: results.Reuse{TTFT: at(100), OfCold: 39, OfPrimed: 4.1}, File: results.Reuse{TTFT: at(90), OfCold: 41, OfPrimed: 3.9},
			Publishing: results.Publishing{Added: 0.031},
		}, {Tokens: 600}},
		Overhead: results.Overhead{
			Miss: results.Miss{Added: 2.9}, Short: results.Short{NoneAdded: 1.1, SharingAdded: 0.5}, Decode: results.Decode{NoneOfStock: 0.995},
		},
		Memory: results.Memory{
			Publisher: results.Resident{NowBytes: 60 << 20, PeakBytes: 300 << 20, InFlightBytes: 200 << 20},
			Loader:    results.Resident{NowBytes: 129 << 20, PeakBytes: 300 << 20, InFlightBytes: 200 << 20},
		},
	}
	want := map[string]bool{
		"1793 tokens: reuse over TCP, quicker than cold":       false,
		"1793 tokens: reuse from files, quicker than cold":     true,
		"1793 tokens: reuse from files, quicker than over TCP": true,
		"1793 tokens: reuse over TCP, of a primed slot":        false,
		"1793 tokens: reuse from files, of a primed slot":      true,
		"1793 tokens: added by publishing":                     false,
		"added by a lookup that misses":                        true,
		"added without a store, short prompt":                  false,
		"added with a store, short prompt":                     true,
		"tokens a second without a store, of stock":            true,
		"resident beside pages in flight, publisher":           true,
		"resident beside pages in flight, reader over TCP":     false,
	}
	for _, g := range ttftGoals(f) {
		if reached, ok := want[g.Name]; ok && g.Reached != reached {
			t.Errorf("%+v", g)
		}
		delete(want, g.Name)
	}
	if len(want) > 0 {
		t.Errorf("no goals %v", want)
	}
}
