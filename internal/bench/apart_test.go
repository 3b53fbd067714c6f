package bench

import (
	"errors"
	"strings"
	"testing"
)

// Both ways once on real engines: every figure is there, and pages came from the
// worker that prefills.
func TestRunApart(t *testing.T) {
	got, err := RunApart(t.Context(), ApartOptions{
		Worker: self(t, roleWorker), Streams: 1, Prompts: []int{700, 640}, Batch: 128, Rounds: 1, Progress: NewProgress(nil), Command: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]Way{"mixed": got.Mixed, "apart": got.Apart} {
		if w.GapP50MS <= 0 || w.GapP99MS < w.GapP50MS || w.GapMaxMS < w.GapP99MS || w.Gaps < 10 || w.Stalled < 0 || w.Stalled > 1 || w.TokensPerSecond <= w.StreamTokensPerSecond ||
			w.StreamTokensPerSecond <= 0 || w.TTFTMS <= 0 {
			t.Errorf("%s: %+v", name, w)
		}
	}
	if got.Mixed.Elsewhere != 0 || got.Apart.Elsewhere != 2*512 {
		t.Errorf("%d and %d tokens loaded, want none and two pages of each prompt", got.Mixed.Elsewhere, got.Apart.Elsewhere)
	}
	var table strings.Builder
	if err := SummarizeApart(&table, got); err != nil || !strings.Contains(table.String(), "prefill and decode apart") {
		t.Errorf("%s: %v", table.String(), err)
	}
	if path := t.TempDir() + "/apart.json"; got.Write(path) != nil {
		t.Errorf("it is not written to %s", path)
	}
}

func TestRunApartRefuses(t *testing.T) {
	for _, o := range []ApartOptions{
		{Streams: 0, Prompts: []int{700}, Batch: 512, Rounds: 1},
		{Streams: 1, Batch: 512, Rounds: 1},
		{Streams: 1, Prompts: []int{10}, Batch: 512, Rounds: 1},
		{Streams: 1, Prompts: []int{700}, Batch: 512},
		{Streams: 1, Prompts: []int{700}, Rounds: 1},
	} {
		if _, err := RunApart(t.Context(), o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestApartGoals(t *testing.T) {
	a := Apart{Mixed: Way{GapP99MS: 100, TokensPerSecond: 100}, Apart: Way{GapP99MS: 50, TokensPerSecond: 90}}
	for _, g := range a.Goals() {
		if !g.Met {
			t.Errorf("%+v", g)
		}
	}
	a.Apart = Way{GapP99MS: 51, TokensPerSecond: 89}
	for _, g := range a.Goals() {
		if g.Met {
			t.Errorf("%+v", g)
		}
	}
	for _, g := range (&Apart{}).Goals() {
		if g.Met {
			t.Errorf("of nothing: %+v", g)
		}
	}
}
