package bench

import (
	"bytes"
	"strings"
	"testing"

	"ollamoon/internal/results"
)

func TestGoals(t *testing.T) {
	f := &results.File{
		Transfer: results.Transfer{
			TCP:          results.Measurement{ReloadMBs: 3900, PublishMBs: 3000, HeldBytes: 10 << 20},
			SharedMemory: results.Measurement{ReloadMBs: 9000, PublishMBs: 5999, HeldBytes: 65 << 20},
		},
		Peer:  results.Peer{PythonClient: results.Measurement{ReloadMBs: 3000, PublishMBs: 2000}},
		Limit: results.Limit{LoopbackTCPMBs: 4000},
		Engine: &results.Engine{
			Model: "small", PromptTokens: 2048, TokensSkipped: 1792, TTFTComputedMS: 1000, TTFTReusedMS: 100, AnswersEqual: true,
		},
	}
	want := []bool{true, true, true, false, true, false, false}
	for i, g := range Goals(f) {
		if g.Met != want[i] {
			t.Errorf("%+v, want met %v", g, want[i])
		}
	}
	var out bytes.Buffer
	if err := Summarize(&out, f); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ours, TCP", "3900", "65.0 MiB", ">= 1.3 times", "1.30 times", "MISSED", "small: ", "1792 from the store, 10.0 times", "are equal to"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, out.String())
		}
	}
	for _, g := range Goals(&results.File{}) {
		if g.Met {
			t.Errorf("met without a figure: %+v", g)
		}
	}
}
