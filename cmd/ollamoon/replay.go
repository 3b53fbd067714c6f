package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"ollamoon/internal/bench"
	"ollamoon/internal/results"
	"ollamoon/internal/simulate"
	"ollamoon/internal/simulate/replay"
	"ollamoon/internal/simulate/trace"
)

// A replaying is what simulate replay was asked for.
type replaying struct {
	simulation  // of which it has trace, out, blockTokens, costs, workerCache and asJSON
	url         string
	requests    int
	scaleTokens int
}

// smallName names the trace that is there without a file.
const smallName = "small"

func newSimulateReplayCommand() *cobra.Command {
	var r replaying
	cmd := &cobra.Command{
		Use:   "replay --url URL",
		Short: "Hold the simulator against a running cluster",
		Long: "Sends a trace's requests to a cluster, one after the other, with prompts made of the\n" +
			"trace's blocks, and plays the same requests to a simulated cluster whose costs were\n" +
			"measured on the real one just before. Told are, side by side, the pages that were\n" +
			"not computed and times to the first token.\n\n" +
			"The workers compute for themselves (ollamoon up --prefill 0), no API key is needed,\n" +
			"and nothing else uses the cluster meanwhile.",
		Example: "  ollamoon up --prefill 0 --decode 2\n" +
			"  ollamoon simulate replay --url http://127.0.0.1:8080\n" +
			"  ollamoon simulate replay --url http://127.0.0.1:8080 --trace conversation_trace.jsonl --scale 256 --requests 50",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&r.url, "url", "", "the cluster's router (required)")
	flags.StringVar(&r.trace, "trace", "", "trace to play: JSON lines of Mooncake's form (default: a small one that is made here)")
	flags.IntVar(&r.blockTokens, "block-tokens", 0, "tokens of the trace's blocks (default: inferred)")
	flags.IntVar(&r.scaleTokens, "scale", 0, "make blocks have so many tokens, and prompts and answers shorter or longer in proportion\n(default: as they are; 256 in the small trace)")
	flags.IntVar(&r.requests, "requests", 32, "play so many, from the first on")
	flags.StringVar(&r.costs, "costs", "", "costs of the simulation, as of ollamoon simulate (default: measured on the cluster)")
	flags.StringVar(&r.workerCache, "worker-cache", "8GiB", "each simulated worker's own cache; llama-server keeps as much by default")
	flags.BoolVar(&r.asJSON, "json", false, "print the results file instead of a table")
	flags.StringVar(&r.out, "out", "", "results file to write (default: none)")
	required(cmd, "url", "http://127.0.0.1:8080")
	return cmd
}

func (r *replaying) run(cmd *cobra.Command) error {
	if err := checkOut(r.out); err != nil {
		return err
	}
	o, err := r.options()
	if err != nil {
		return err
	}
	host, err := bench.ThisHost(cmd.Context())
	if err != nil {
		return err
	}
	progress := bench.NewProgress(cmd.ErrOrStderr())
	defer progress.Close()
	o.Stage = progress.Stage
	f, err := replay.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	f.GeneratedAt, f.Host = time.Now(), host
	f.Command = commandLine()
	f.Versions = map[string]string{"ollamoon": version, "go": runtime.Version()}
	return r.tell(cmd, f)
}

// options turns words into what they mean.
func (r *replaying) options() (o replay.Options, err error) {
	o.URL = r.url
	size, err := humanize.ParseBytes(r.workerCache)
	if err != nil {
		return o, fmt.Errorf("--worker-cache: %w", err)
	}
	o.WorkerCache = int64(min(size, 1<<62))
	if r.costs != "" {
		costs, err := simulate.ReadCosts(r.costs)
		if err != nil {
			return o, fmt.Errorf("--costs: %w", err)
		}
		o.Costs = &costs
	}
	if r.requests < 1 {
		return o, fmt.Errorf("--requests %d: there must be one at least", r.requests)
	}
	o.Trace, o.Name = trace.Small(r.requests, 256), smallName
	if r.trace != "" {
		t, _, err := r.read()
		if err != nil {
			return o, err
		}
		o.Trace, o.Name = t.First(r.requests), filepath.Base(r.trace)
	}
	if r.scaleTokens != 0 {
		if o.Trace, err = o.Trace.Scale(r.scaleTokens); err != nil {
			return o, fmt.Errorf("--scale: %w", err)
		}
	}
	return o, nil
}

// tell writes and prints what came of it.
func (r *replaying) tell(cmd *cobra.Command, f *results.Replay) error {
	return tell(cmd, f, r.out, r.asJSON, func() error { return replay.Write(cmd.OutOrStdout(), f) })
}
