package simulate

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ollamoon/internal/simulate/trace"
)

// conversation is Mooncake's conversation trace, of testdata.
func conversation(t *testing.T) *trace.Trace {
	t.Helper()
	tr, err := readConversation()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

var readConversation = sync.OnceValues(func() (*trace.Trace, error) {
	file, err := os.Open("testdata/conversation.gz")
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	packed, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for in := bufio.NewScanner(packed); in.Scan(); {
		q, err := expand(strings.Fields(in.Text()))
		if err != nil {
			return nil, err
		}
		if err := encoder.Encode(q); err != nil {
			return nil, err
		}
	}
	return trace.Read(&lines, 0)
})

// expand returns the request of a line: time, lengths, and runs of blocks.
func expand(words []string) (trace.Request, error) {
	var q trace.Request
	number := func(word string) (n int64) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			return n
		}
		return -1 // which Read refuses
	}
	q.TimeMS, q.Input, q.Output = number(words[0]), int(number(words[1])), int(number(words[2]))
	for _, run := range words[3:] {
		first, last, long := strings.Cut(run, "-")
		if !long {
			last = first
		}
		for id := number(first); id <= number(last); id++ {
			q.Blocks = append(q.Blocks, id)
		}
	}
	return q, nil
}

// The trace is the one that is known.
func TestConversation(t *testing.T) {
	tr := conversation(t)
	p := tr.Blocks()
	if len(p.Prompts) != 12031 || tr.BlockTokens != 512 || p.Total != 288500 || p.Distinct != 182790 || p.Input != 144793823 {
		t.Errorf("%d requests, blocks of %d tokens, %d blocks, %d distinct, %d tokens", len(p.Prompts), tr.BlockTokens, p.Total, p.Distinct, p.Input)
	}
	if ideal := float64(p.Ideal()) / float64(p.Total); ideal < 0.3664 || ideal > 0.3665 {
		t.Errorf("a store that never forgets hits %.4f", ideal)
	}
}

// 64 workers that compute a model of 8B on processors, at low, middle and high
// load: with the shared store nearly all that is possible is hit, far more than
// by round robin on the workers' own caches, and nine of ten requests have their
// first token sooner than under each other policy, also when workers without the
// store have its memory between them.
func TestSharedAgainstOthers(t *testing.T) {
	costs, err := ReadCosts("8b-cpu")
	if err != nil {
		t.Fatal(err)
	}
	p := conversation(t).Blocks()
	for name, equal := range map[string]bool{"8 GiB a worker": false, "equal memory": true} {
		t.Run(name, func(t *testing.T) {
			grid := Grid{
				Policies: Policies(), Workers: []int{64}, Loads: []float64{0.3, 0.6, 0.9}, Stores: []float64{1},
				Seed: 1, Costs: costs, WorkerCache: 8 << 30, EqualMemory: equal,
			}
			cells, outcomes, err := grid.Run(t.Context(), p, func() {})
			if err != nil {
				t.Fatal(err)
			}
			shared := map[float64]*Outcome{}
			for i, o := range outcomes {
				t.Logf("load %g, %s: %.3f of ideal, first token p50 %.1f p90 %.1f p99 %.1f s", cells[i].Options.Load, cells[i].Options.Policy,
					float64(o.Hits)/float64(o.Ideal), o.TTFT.P50, o.TTFT.P90, o.TTFT.P99)
				if cells[i].Options.Policy == Shared {
					shared[cells[i].Options.Load] = o
				}
			}
			for i, o := range outcomes {
				compare(t, cells[i].Options, o, shared[cells[i].Options.Load])
			}
		})
	}
}

func compare(t *testing.T, o Options, out, shared *Outcome) {
	t.Helper()
	ofIdeal := float64(out.Hits) / float64(out.Ideal)
	switch o.Policy {
	case Shared:
		if ofIdeal < 0.98 {
			t.Errorf("load %g: %.4f of the ideal", o.Load, ofIdeal)
		}
		return
	case RoundRobin:
		if ofIdeal > 0.25 {
			t.Errorf("load %g: round robin hits %.4f of the ideal", o.Load, ofIdeal)
		}
	case LeastOutstanding, CacheAffinity:
	}
	if shared.TTFT.P90 >= out.TTFT.P90 {
		t.Errorf("load %g: first token p90 %.1f s, %s %.1f s", o.Load, shared.TTFT.P90, o.Policy, out.TTFT.P90)
	}
}
