package results

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The dated results that the repository has are those of runs, whole.
func TestTheReplaysKeptAreValid(t *testing.T) {
	for _, path := range keptReplays(t) {
		data, err := os.ReadFile(path) //nolint:gosec // of the repository
		if err != nil {
			t.Fatal(err)
		}
		f, err := ParseReplay(data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		again := filepath.Join(t.TempDir(), "replay.json")
		if err := f.Write(again); err != nil {
			t.Fatal(err)
		}
		if read, err := os.ReadFile(again); err != nil || string(read) != string(data) || Kind(data) != ReplayKind { //nolint:gosec // of this test
			t.Errorf("%s: what is written again differs, %v", path, err)
		}
	}
}

func keptReplays(t *testing.T) []string {
	t.Helper()
	kept, err := filepath.Glob("../../test-results/replay-*.json")
	if err != nil || len(kept) == 0 {
		t.Fatalf("no results are kept: %v", err)
	}
	return kept
}

func TestParseReplayRejects(t *testing.T) {
	data, err := os.ReadFile(keptReplays(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Replay){
		"at '/kind': value must be 'replay'":                   func(f *Replay) { f.Kind = "simulation" },
		"at '/requests': minItems":                             func(f *Replay) { f.Requests = []ReplayedRequest{} },
		"at '/requests': 1 of":                                 func(f *Replay) { f.Requests = f.Requests[:1] },
		"at '/requests/0/cluster/source': value must be one":   func(f *Replay) { f.Requests[0].Cluster.Source = "luck" },
		"at '/requests/1': 99 and":                             func(f *Replay) { f.Requests[1].Cluster.Hits = 99 },
		"at '/simulated/hits':":                                func(f *Replay) { f.Simulated.Hits++ },
		"at '/cluster/hits':":                                  func(f *Replay) { f.Cluster.StoreHits = f.Cluster.Hits + 1 },
		"at '/cluster/ttft_ms': p50, p90":                      func(f *Replay) { f.Cluster.TTFT.P50 = f.Cluster.TTFT.P90 + 1 },
		"at '/goals/0/reached':":                               func(f *Replay) { f.Goals[0].Reached = !f.Goals[0].Reached },
		"at '/costs/prefill_tokens_s': exclusiveMinimum":       func(f *Replay) { f.Costs.Prefill = 0 },
		"at '/host/cores': minimum":                            func(f *Replay) { f.Host.Cores = 0 },
		"at '/versions': missing property 'go'":                func(f *Replay) { delete(f.Versions, "go") },
		"at '/trace/ideal_hits': minimum":                      func(f *Replay) { f.Trace.IdealHits = -1 },
		"at '/goals': minItems: got 0, want 1":                 func(f *Replay) { f.Goals = []TTFTGoal{} },
		"at '/requests/0/simulated/ttft_ms': minimum: got -1,": func(f *Replay) { f.Requests[0].Simulated.TTFT = -1 },
	} {
		f, err := ParseReplay(data)
		if err != nil {
			t.Fatal(err)
		}
		change(f)
		changed, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseReplay(changed); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// The schema has exactly the fields that are written.
func TestReplaySchema(t *testing.T) {
	var schema struct {
		Required   []string
		Properties map[string]json.RawMessage
	}
	if err := json.Unmarshal(ReplaySchema, &schema); err != nil {
		t.Fatal(err)
	}
	fields := reflect.TypeFor[Replay]()
	for i := range fields.NumField() {
		name := fields.Field(i).Tag.Get("json")
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("the schema has no %s", name)
		}
	}
	if len(schema.Required) != fields.NumField() || len(schema.Properties) != fields.NumField() {
		t.Errorf("the schema requires %d fields of %d", len(schema.Required), fields.NumField())
	}
}
