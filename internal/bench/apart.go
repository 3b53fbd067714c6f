package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"ollamoon/internal/engine"
	"ollamoon/internal/supervise"
	"ollamoon/internal/wholefile"
)

// ApartOptions say how prefill and decode apart are measured against workers that
// do both.
type ApartOptions struct {
	// Worker is a command that stands in for llama-server, whose arguments follow.
	Worker supervise.Command
	// Streams are answers that run all the time, Prompts the lengths of long prompts
	// that arrive meanwhile, one after the other.
	Streams int
	Prompts []int
	// Batch is the most tokens that a worker computes together, during which its
	// streams stand still.
	Batch int
	// Rounds is how often each way is measured, in turn.
	Rounds   int
	Progress *Progress
	Command  string
}

func (o *ApartOptions) validate() error {
	if o.Streams < 1 || o.Streams > 64 || o.Rounds < 1 || o.Batch < 32 || len(o.Prompts) == 0 || slices.Min(o.Prompts) < 64 {
		return fmt.Errorf("%w: %d streams (1 to 64), %d rounds, batches of %d tokens (32 or more), prompts of %v (64 or more)", ErrOptions, o.Streams, o.Rounds, o.Batch, o.Prompts)
	}
	return nil
}

// A Way is two workers that share a store, of a thread each: what clients of the
// streams and of the long prompts saw.
type Way struct {
	// GapP50MS, GapP99MS and GapMaxMS are of the times between two tokens of a
	// stream.
	GapP50MS float64 `json:"gap_p50_ms"`
	GapP99MS float64 `json:"gap_p99_ms"`
	GapMaxMS float64 `json:"gap_max_ms"`
	Gaps     int     `json:"gaps"`
	// Stalled is the part of the streams' time in gaps of more than stall.
	Stalled float64 `json:"stalled"`
	// TokensPerSecond are prompts' tokens, and those of the streams, over the whole
	// time.
	TokensPerSecond       float64 `json:"tokens_per_second"`
	StreamTokensPerSecond float64 `json:"stream_tokens_per_second"`
	// TTFTMS is the median of the long prompts' times to the first token.
	TTFTMS float64 `json:"ttft_ms"`
	// Elsewhere is how many of the prompts' tokens were loaded instead of computed
	// by the worker that answered.
	Elsewhere int `json:"tokens_loaded"`
}

// Apart is what RunApart measured: medians of rounds.
type Apart struct {
	Command     string    `json:"command"`
	GeneratedAt time.Time `json:"generated_at"`
	Model       string    `json:"model"`
	Processors  int       `json:"processors"`
	Streams     int       `json:"streams"`
	Prompts     []int     `json:"prompts"`
	Batch       int       `json:"batch"`
	Rounds      int       `json:"rounds"`
	Mixed       Way       `json:"mixed"` // two workers that do both
	Apart       Way       `json:"apart"` // one that prefills and one that answers
}

// What prefill and decode apart sets out to reach.
const (
	// stall is a gap that a reader notices.
	stall = 200 * time.Millisecond
	// GoalGap is the most of the mixed workers' time between two tokens, at the 99th
	// percentile.
	GoalGap = 0.5
	// GoalThroughput is the least of the mixed workers' tokens a second.
	GoalThroughput = 0.9
)

// RunApart measures both ways in turn.
func RunApart(ctx context.Context, o ApartOptions) (*Apart, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	programs, err := engine.Find()
	if err != nil {
		return nil, err
	}
	host, err := ThisHost(ctx)
	if err != nil {
		return nil, err
	}
	step, end := o.Progress.stage("streams while long prompts arrive", 2*o.Rounds)
	defer end()
	var mixed, apart []Way
	for round := range o.Rounds {
		for _, w := range []struct {
			into  *[]Way
			apart bool
		}{{&mixed, false}, {&apart, true}} {
			way, err := o.measure(ctx, programs, w.apart, round)
			if err != nil {
				return nil, err
			}
			*w.into = append(*w.into, way)
			step()
		}
	}
	a := &Apart{
		Command: o.Command, GeneratedAt: time.Now().Truncate(time.Second), Model: filepath.Base(programs.Model), Processors: host.Cores,
		Streams: o.Streams, Prompts: o.Prompts, Batch: o.Batch, Rounds: o.Rounds, Mixed: middleWay(mixed), Apart: middleWay(apart),
	}
	return a, nil
}

// Goals compares what was measured with what prefill and decode apart sets out to
// reach.
func (a *Apart) Goals() []Goal {
	gap := math.Inf(1)
	if a.Mixed.GapP99MS > 0 {
		gap = a.Apart.GapP99MS / a.Mixed.GapP99MS
	}
	return []Goal{
		{
			Name: "time between two tokens of a stream, p99, of mixed workers'", Want: fmt.Sprintf("<= %.1f times", GoalGap),
			Measured: fmt.Sprintf("%.2f times", gap), Met: gap <= GoalGap,
		},
		atLeast("tokens a second, of mixed workers'", GoalThroughput, a.Apart.TokensPerSecond, a.Mixed.TokensPerSecond),
	}
}

// Write writes the result as JSON, whole or not at all.
func (a *Apart) Write(path string) error {
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return wholefile.Write(path, append(data, '\n'))
}

// SummarizeApart writes the figures and the goals as tables.
func SummarizeApart(w io.Writer, a *Apart) error {
	rows := [][]string{{"", "gap p50, ms", "p99", "most", "stalled, %", "tokens/s", "of streams", "long prompts' ttft, ms", "tokens loaded"}}
	for _, r := range []struct {
		name string
		Way
	}{{"two mixed workers", a.Mixed}, {"prefill and decode apart", a.Apart}} {
		row := []string{r.name}
		for _, v := range []float64{r.GapP50MS, r.GapP99MS, r.GapMaxMS, r.Stalled * 1e2, r.TokensPerSecond, r.StreamTokensPerSecond, r.TTFTMS} {
			row = append(row, fmt.Sprintf("%.1f", v))
		}
		rows = append(rows, append(row, strconv.Itoa(r.Elsewhere)))
	}
	if err := table(w, tabwriter.AlignRight, rows); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "\n%d streams, long prompts of %v tokens one after the other, batches of %d, %d rounds, the median round; two engines of a thread each; stalled: in gaps of more than %v\n\n",
		a.Streams, a.Prompts, a.Batch, a.Rounds, stall); err != nil {
		return err
	}
	rows = [][]string{{"goal", "wanted", "measured", ""}}
	for _, g := range a.Goals() {
		verdict := "met"
		if !g.Met {
			verdict = "MISSED"
		}
		rows = append(rows, []string{g.Name, g.Want, g.Measured, verdict})
	}
	return table(w, 0, rows)
}
