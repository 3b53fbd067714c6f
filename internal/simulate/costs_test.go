package simulate

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/results"
	"ollamoon/internal/simulate/trace"
)

func TestPresets(t *testing.T) {
	kv := map[string]float64{"1b": 32 << 10, "8b": 128 << 10, "70b": 320 << 10}
	names := PresetNames()
	if len(names) != 6 {
		t.Errorf("presets %q", names)
	}
	for _, name := range names {
		c, err := ReadCosts(name)
		if err != nil || c.Validate() != nil || c.Name != name {
			t.Errorf("%s: %+v, %v, %v", name, c, err, c.Validate())
		}
		model, _, _ := strings.Cut(name, "-")
		if c.KVBytes != kv[model] {
			t.Errorf("%s: %g bytes a token, want %g", name, c.KVBytes, kv[model])
		}
		for _, figure := range []string{"Speeds: ", "KV: ", "Link: ", "Slot files: "} {
			if !strings.Contains(strings.Join(c.Sources, "\n"), figure) {
				t.Errorf("%s: no source of %q", name, figure)
			}
		}
	}
}

func TestReadCosts(t *testing.T) {
	const good = `{"prefill_tokens_per_second": 400, "decode_tokens_per_second": 30, "slots": 2, "kv_bytes_per_token": 23040,
		"load_bytes_per_second": 1e9, "lookup_seconds": 0.0004, "restore_bytes_per_second": 3e9}`
	read := func(text string) (Costs, error) {
		path := filepath.Join(t.TempDir(), "costs.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadCosts(path)
	}
	for _, text := range []string{good, `{"figures": 3, "costs": ` + good + `}`} {
		c, err := read(text)
		if err != nil || c.Name != "measured" || c.Prefill != 400 || c.Slots != 2 || c.Lookup != 0.0004 {
			t.Errorf("read %+v, %v", c, err)
		}
		whole := c.complete()
		if whole.Beside != 1/400.0 || whole.Batch != DefaultBatch || whole.Publish != 1e9 {
			t.Errorf("completed to %+v", whole)
		}
	}
	for _, text := range []string{
		"", "{}", "[]", good + good, strings.Replace(good, "400", "-400", 1), strings.Replace(good, `"slots"`, `"places"`, 1),
		strings.Replace(good, "23040", "0", 1), strings.Replace(good, "30", `"30"`, 1),
	} {
		if _, err := read(text); !errors.Is(err, ErrCosts) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ReadCosts("9b-gpu"); !errors.Is(err, ErrCosts) || !strings.Contains(err.Error(), "8b-cpu") {
		t.Errorf("an unknown preset: %v", err)
	}
}

// The costs are those that bench ttft has measured.
func TestMeasuredCosts(t *testing.T) {
	at := func(ms float64) results.Spread { return results.Spread{Min: ms, P50: ms, Mean: ms, Max: ms} }
	reuse := results.Reuse{TTFT: at(50), Breakdown: results.Breakdown{Lookup: 5, Load: 15, Restore: 20, Compute: 9, Other: 1}, OfCold: 20, OfPrimed: 5}
	f := results.TTFT{
		SchemaVersion: 1, GeneratedAt: time.Now(), Command: "ollamoon bench ttft",
		Host:     results.Host{Name: "here", OS: "debian 12", Cores: 2, MemoryBytes: 1 << 34},
		Versions: map[string]string{"ollamoon": "devel", "go": "go1.26", "mooncake": "0.3.13", "llama": "b1"},
		Model:    results.Model{Name: "small.gguf", Threads: 2, PageTokens: 256, TokenBytes: 1000},
		Prompts: []results.Prompt{{
			Tokens: 4000, Shared: 3840, Bytes: 3840 * 1000, Cold: at(8000), Primed: at(10), PrimedCompute: 8, TCP: reuse, File: reuse,
			Publishing: results.Publishing{Tokens: 4096, Cold: at(10_000), Publishing: at(10_100), Added: 0.01},
		}},
		Overhead: results.Overhead{
			Short:  results.Short{Tokens: 16, Requests: 2, Stock: at(10), None: at(11), Sharing: at(10), NoneAdded: 1},
			Miss:   results.Miss{Tokens: 513, Pages: 2, Requests: 2, Stock: at(10), Sharing: at(12), Added: 2},
			Decode: results.Decode{Tokens: 64, Requests: 2, Stock: 50, None: 50, Sharing: 50, NoneOfStock: 1, SharingOfStock: 1},
		},
		Memory:    results.Memory{Tokens: 513},
		BreakEven: results.BreakEven{FixedMS: 6, LoadMBs: 2000, RestoreMBs: 1000, Rows: []results.BreakEvenRow{{Model: "small.gguf", TokenBytes: 1000, PrefillTokens: 500, LinkMBs: 12, Tokens: []results.BreakEvenTokens{{LinkMBs: 2000, Tokens: 256}}}}},
		Goals:     []results.TTFTGoal{{Name: "a miss", Want: 3, Most: true, Measured: 2, Unit: "ms", Reached: true}},
	}
	path := filepath.Join(t.TempDir(), "ttft.json")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	c, err := ReadCosts(path)
	if err != nil {
		t.Fatal(err)
	}
	// Saved are 1,024, 3,072 and 4,096 tokens, in a hundredth of ten seconds.
	want := Costs{
		Name: "small.gguf", Prefill: 500, Decode: 50, Slots: 4, KVBytes: 1000, Load: 2e9, Restore: 1e9, Lookup: 0.006, Save: 8192e3 / 0.1,
		Sources: []string{"Measured on here by: ollamoon bench ttft"},
	}
	if c.Save > 0 && math.Abs(c.Save-want.Save) < 1 {
		c.Save = want.Save
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("read %+v, want %+v", c, want)
	}
	f.Prompts[0].Publishing.Added = -0.001 // noise: saving takes no time
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	if c, err := ReadCosts(path); err != nil || c.Save != 0 {
		t.Errorf("without a measurable save: %+v, %v", c, err)
	}
	f.Overhead.Decode.Stock = 0
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCosts(path); !errors.Is(err, ErrCosts) {
		t.Errorf("without a speed of decode: %v", err)
	}
}

// The largest store is compared everywhere, smaller ones at one number of workers.
func TestGrid(t *testing.T) {
	p := &trace.Pages{Tokens: 100, Distinct: 1000}
	g := Grid{Policies: []Policy{RoundRobin, Shared}, Workers: []int{4, 64}, Loads: []float64{0.5}, Stores: []float64{0.1, 1}, Costs: plain, WorkerCache: 5e6}
	var got []string
	for _, c := range g.Cells(p) {
		got = append(got, string(c.Options.Policy))
		want := int(c.Store * 1000)
		if c.Options.Store != want || c.Options.WorkerCache != 50 {
			t.Errorf("%+v: a store of %d pages, caches of %d", c.Options, c.Options.Store, c.Options.WorkerCache)
		}
	}
	if strings.Join(got, " ") != "round-robin shared round-robin shared shared" {
		t.Errorf("cells: %q", got)
	}
	g.EqualMemory = true
	for _, c := range g.Cells(p) {
		want := 50
		if c.Options.Policy == RoundRobin {
			want += 1000 / c.Options.Workers
		}
		if c.Options.WorkerCache != want {
			t.Errorf("%s with %d workers: caches of %d pages, want %d", c.Options.Policy, c.Options.Workers, c.Options.WorkerCache, want)
		}
	}
	if Focus([]int{4, 64, 256}) != 64 || Focus([]int{2, 3, 8}) != 3 {
		t.Error("another focus")
	}
	for _, spoil := range []func(*Grid){
		func(g *Grid) { g.Policies = nil }, func(g *Grid) { g.Workers = nil }, func(g *Grid) { g.Loads = nil }, func(g *Grid) { g.Stores = nil },
		func(g *Grid) { g.Stores = []float64{0} }, func(g *Grid) { g.Stores = []float64{1.5} }, func(g *Grid) { g.Workers = []int{4, 0} },
	} {
		bad := g
		spoil(&bad)
		if err := bad.Validate(); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
