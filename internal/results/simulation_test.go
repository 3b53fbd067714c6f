package results

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

const simulationPath = "../report/testdata/simulation.json"

func simulation(t *testing.T) *Simulation {
	t.Helper()
	data, err := os.ReadFile(simulationPath)
	if err != nil {
		t.Fatal(err)
	}
	f, err := ParseSimulation(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSimulationIsReadBack(t *testing.T) {
	f := simulation(t)
	path := t.TempDir() + "/results.json"
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path) //nolint:gosec // of this test
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseSimulation(data)
	if err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("read back %+v, %v", again, err)
	}
	if kind := Kind(data); kind != SimulationKind {
		t.Errorf("its kind is %q", kind)
	}
	if demo, err := os.ReadFile(examplePath); err != nil || Kind(demo) != "" || Kind([]byte("x")) != "" {
		t.Errorf("the kind of another file is %q, %v", Kind(demo), err)
	}
}

func TestParseSimulationRejects(t *testing.T) {
	for want, change := range map[string]func(*Simulation){
		"at '/schema_version': value must be 1":             func(f *Simulation) { f.SchemaVersion = 2 },
		"at '/kind': value must be 'simulation'":            func(f *Simulation) { f.Kind = "demo" },
		"at '/versions': missing property 'go'":             func(f *Simulation) { delete(f.Versions, "go") },
		"at '/runs': minItems":                              func(f *Simulation) { f.Runs = []SimulatedRun{} },
		"at '/runs/1/policy': value must be one of":         func(f *Simulation) { f.Runs[1].Policy = "best" },
		"at '/runs/1/workers': minimum":                     func(f *Simulation) { f.Runs[1].Workers = 0 },
		"at '/saves': value must be one of":                 func(f *Simulation) { f.Saves = "never" },
		"at '/trace/name': minLength":                       func(f *Simulation) { f.Trace.Name = "" },
		"at '/costs/prefill_tokens_s': exclusiveMinimum":    func(f *Simulation) { f.Costs.Prefill = 0 },
		"at '/trace': 288501 distinct pages":                func(f *Simulation) { f.Trace.DistinctPages = 288501 },
		"at '/runs/0/hit_rate': 0.5":                        func(f *Simulation) { f.Runs[0].HitRate = 0.5 },
		"at '/runs/0/of_ideal': 0.5":                        func(f *Simulation) { f.Runs[0].OfIdeal = 0.5 },
		"at '/runs/0/hits'":                                 func(f *Simulation) { f.Runs[0].OwnHits = f.Runs[0].Hits + 1 },
		"at '/runs/0/ttft_ms': p50, p90":                    func(f *Simulation) { f.Runs[0].TTFT.P50 = f.Runs[0].TTFT.P90 + 1 },
		"at '/runs/0/used_bytes': 5 of 0":                   func(f *Simulation) { f.Runs[0].UsedBytes = 5 },
		"at '/runs/0/store_bytes': 5, without a store":      func(f *Simulation) { f.Runs[0].StoreBytes = 5 },
		"at '/runs/0/ttft_ms': p50, p90, p99, mean and max": func(f *Simulation) { f.Runs[0].TTFT.Mean = f.Runs[0].TTFT.Max * 2 },
	} {
		f := simulation(t)
		change(f)
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseSimulation(data); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s: %v", want, err)
		}
	}
}
