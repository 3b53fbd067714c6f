package results

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// ttft is a file that has no contradictions.
func ttft() *TTFT {
	at := func(ms float64) Spread { return Spread{Min: ms, P50: ms, Mean: ms, Max: ms} }
	reuse := Reuse{TTFT: at(50), Breakdown: Breakdown{Lookup: 5, Load: 15, Restore: 20, Compute: 9, Other: 1}, OfCold: 20, OfPrimed: 5}
	return &TTFT{
		SchemaVersion: 1, GeneratedAt: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), Command: "ollamoon bench ttft",
		Host:     Host{Name: "here", OS: "debian 12", Cores: 2, MemoryBytes: 1 << 34},
		Versions: map[string]string{"ollamoon": "devel", "go": "go1.26", "mooncake": "0.3.13.post1", "llama": "b10434"},
		Model:    Model{Name: "small.gguf", Threads: 2, PageTokens: 256, TokenBytes: 23040},
		Prompts: []Prompt{{
			Tokens: 513, Shared: 512, Bytes: 2 * (256*23040 + 80), Cold: at(1000), Primed: at(10), PrimedCompute: 8, TCP: reuse, File: reuse,
			Publishing: Publishing{Tokens: 576, Cold: at(1100), Publishing: at(1111), Added: 0.01},
		}},
		Overhead: Overhead{
			Short:  Short{Tokens: 16, Requests: 2, Stock: at(10), None: at(11), Sharing: at(10), NoneAdded: 1, SharingAdded: -0.1},
			Miss:   Miss{Tokens: 513, Pages: 2, Requests: 2, Stock: at(10), Sharing: at(12), Added: 2},
			Decode: Decode{Tokens: 64, Requests: 2, Stock: 50, None: 50, Sharing: 50, NoneOfStock: 1, SharingOfStock: 1},
		},
		Memory: Memory{Tokens: 513, Publisher: Resident{1 << 20, 2 << 20, 1 << 20}, Loader: Resident{1 << 20, 2 << 20, 1 << 20}},
		BreakEven: BreakEven{
			FixedMS: 6, LoadMBs: 2000, RestoreMBs: 1000,
			Rows: []BreakEvenRow{{Model: "small.gguf", TokenBytes: 23040, PrefillTokens: 500, LinkMBs: 12, Tokens: []BreakEvenTokens{{2000, 256}}}},
		},
		Goals: []TTFTGoal{{Name: "reuse", Want: 40, Measured: 20, Unit: "times"}, {Name: "a miss", Want: 3, Most: true, Measured: 2, Unit: "ms", Reached: true}},
	}
}

func TestTTFTIsReadBack(t *testing.T) {
	f, path := ttft(), filepath.Join(t.TempDir(), "ttft.json")
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	again, err := ReadTTFT(path)
	if err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("read back %+v, %v", again, err)
	}
}

func TestParseTTFTRejects(t *testing.T) {
	for want, change := range map[string]func(*TTFT){
		"at '/schema_version': value must be 1":                       func(f *TTFT) { f.SchemaVersion = 2 },
		"at '/versions': missing property 'llama'":                    func(f *TTFT) { delete(f.Versions, "llama") },
		"at '/prompts': got null, want array":                         func(f *TTFT) { f.Prompts = nil },
		"at '/prompts/0/shared': 513 of 513 tokens":                   func(f *TTFT) { f.Prompts[0].Shared = 513 },
		"at '/prompts/0/shared': 500 of 513 tokens":                   func(f *TTFT) { f.Prompts[0].Shared = 500 },
		"at '/prompts/0/cold_ms': min, p50, mean and max":             func(f *TTFT) { f.Prompts[0].Cold.Min = 2000 },
		"at '/prompts/0/tcp/breakdown_ms': the parts are 130 ms":      func(f *TTFT) { f.Prompts[0].TCP.Breakdown.Restore = 100 },
		"at '/overhead/decode/stock_tokens_s': minimum":               func(f *TTFT) { f.Overhead.Decode.Stock = -1 },
		"at '/goals/0/reached': true, with 20 for 40":                 func(f *TTFT) { f.Goals[0].Reached = true },
		"at '/goals/1/reached': false, with 2 for 3":                  func(f *TTFT) { f.Goals[1].Reached = false },
		"at '/break_even/rows/0/token_bytes': minimum: got 0, want 1": func(f *TTFT) { f.BreakEven.Rows[0].TokenBytes = 0 },
		"at '/memory/loader/peak_bytes': minimum: got -1, want 0":     func(f *TTFT) { f.Memory.Loader.PeakBytes = -1 },
	} {
		f := ttft()
		change(f)
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseTTFT(data); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// The dated results that the repository has are those of runs, whole.
func TestTheTTFTResultsKeptAreValid(t *testing.T) {
	kept, err := filepath.Glob("../../test-results/ttft-*.json")
	if err != nil || len(kept) == 0 {
		t.Fatalf("no results are kept: %v", err)
	}
	for _, path := range kept {
		if _, err := ReadTTFT(path); err != nil {
			t.Error(err)
		}
	}
}
