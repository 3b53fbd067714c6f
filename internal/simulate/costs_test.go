package simulate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
