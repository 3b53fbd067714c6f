package bench

import (
	"math"

	"ollamoon/internal/results"
	"ollamoon/internal/worker"
	"ollamoon/page"
)

// A preset is a model by the geometry of its cache, at f16.
type preset struct {
	name   string
	layout page.Layout
}

// The geometries are those of the models' own config.json: num_hidden_layers,
// num_key_value_heads, and head_dim or hidden_size / num_attention_heads.
var presets = []preset{
	{"Llama 3.2 1B", page.Layout{Layers: 16, KVHeads: 8, HeadDim: 64, PageTokens: 1, ElementBytes: 2}},
	{"Llama 3.1 8B", page.Layout{Layers: 32, KVHeads: 8, HeadDim: 128, PageTokens: 1, ElementBytes: 2}},
	{"Llama 3.1 70B", page.Layout{Layers: 80, KVHeads: 8, HeadDim: 128, PageTokens: 1, ElementBytes: 2}},
}

// links are speeds of 1, 10 and 100 Gbit/s, in MB/s.
var links = []float64{125, 1250, 12500}

// breakEven finds out from where on loading pays: for the model of the run at the
// speed that was measured with each length, and for the presets at each of the
// given speeds.
func breakEven(f *results.TTFT, prefill []float64) results.BreakEven {
	shortest, longest := f.Prompts[0], f.Prompts[len(f.Prompts)-1]
	b := results.BreakEven{
		FixedMS:    shortest.TCP.Breakdown.Lookup + shortest.TCP.Breakdown.Other,
		LoadMBs:    mbs(longest.Bytes, longest.TCP.Breakdown.Load),
		RestoreMBs: mbs(longest.Bytes, longest.TCP.Breakdown.Restore),
	}
	for _, p := range f.Prompts {
		b.Rows = append(b.Rows, row(b, f.Model.Name, f.Model.TokenBytes, float64(p.Tokens)/p.Cold.P50*1e3))
	}
	for _, m := range presets {
		for _, speed := range prefill {
			b.Rows = append(b.Rows, row(b, m.name, int64(m.layout.Bytes()), speed))
		}
	}
	return b
}

func row(b results.BreakEven, model string, tokenBytes int64, prefill float64) results.BreakEvenRow {
	r := results.BreakEvenRow{Model: model, TokenBytes: tokenBytes, PrefillTokens: prefill}
	megabytes := float64(tokenBytes) / 1e6
	// In seconds a token: computing it, less bringing it into a slot, is left for
	// the link.
	if left := 1/prefill - megabytes/b.RestoreMBs; left > 0 && b.RestoreMBs > 0 {
		r.LinkMBs = megabytes / left
	}
	for _, link := range append([]float64{b.LoadMBs}, links...) {
		r.Tokens = append(r.Tokens, results.BreakEvenTokens{LinkMBs: link, Tokens: leastTokens(b, megabytes, prefill, link)})
	}
	return r
}

func leastTokens(b results.BreakEven, megabytes, prefill, link float64) int {
	perToken := 1/prefill - megabytes/b.RestoreMBs - megabytes/min(link, b.LoadMBs)
	if !(perToken > 0) {
		return 0
	}
	pages := math.Ceil(b.FixedMS / 1e3 / perToken / worker.DefaultPageTokens)
	return max(1, int(pages)) * worker.DefaultPageTokens
}
