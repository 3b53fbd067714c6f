package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"ollamoon/internal/bench"
	"ollamoon/internal/results"
	"ollamoon/internal/simulate"
	"ollamoon/internal/simulate/trace"
)

// A simulation is what simulate was asked for.
type simulation struct {
	grid        simulate.Grid
	trace, out  string
	costs       string
	policies    []string
	workerCache string
	saves       string
	blockTokens int
	pageTokens  int
	asJSON      bool
}

func newSimulateCommand() *cobra.Command {
	var s simulation
	cmd := &cobra.Command{
		Use:   "simulate --trace FILE",
		Short: "Play a trace to simulated clusters, and compare how their routers choose",
		Long: "Plays the requests of a trace to clusters that are not there: workers with slots and\n" +
			"caches of their own, a store that they share or none, and the router's own policy.\n" +
			"What takes time is a model: published speeds of models on processors and GPUs, what\n" +
			"bench ttft has measured, or a file. Told are hit rates against a store that never\n" +
			"forgets, times to the first token, balance, and the store's size and traffic.\n" +
			"docs/simulate.md has the model, the format of traces, and results.",
		Example: "  ollamoon simulate --trace conversation_trace.jsonl\n" +
			"  ollamoon simulate --trace conversation_trace.jsonl --costs 70b-gpu --workers 64 --out results.json\n" +
			"  ollamoon report results.json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&s.trace, "trace", "", "trace to play: JSON lines of Mooncake's form (required)")
	flags.BoolVar(&s.asJSON, "json", false, "print the results file instead of a table")
	flags.StringVar(&s.out, "out", "", "results file to write; ollamoon report shows it (default: none)")
	flags.IntSliceVar(&s.grid.Workers, "workers", []int{4, 16, 64, 256, 1024}, "numbers of workers")
	flags.Float64SliceVar(&s.grid.Loads, "load", []float64{0.3, 0.6, 0.9}, "loads: tokens of prompts that come over those that all engines could compute; 0 is the trace's own clock")
	flags.StringSliceVar(&s.policies, "policy", []string{"round-robin", "least-outstanding", "cache-affinity", "shared"}, "how the router chooses; shared is ours, with the store")
	flags.Float64SliceVar(&s.grid.Stores, "store-blocks", []float64{0.1, 0.25, 0.5, 0.75, 1}, "sizes of the store, as parts of the trace's distinct blocks; all but the largest only at 64 workers")
	flags.StringVar(&s.costs, "costs", "8b-cpu", "what work takes: "+strings.Join(simulate.PresetNames(), ", ")+",\nor a file: of bench ttft --json, or as docs/simulate.md says")
	flags.StringVar(&s.workerCache, "worker-cache", "8GiB", "each worker's own cache; llama-server keeps as much by default")
	flags.BoolVar(&s.grid.EqualMemory, "equal-memory", false, "give workers without a store equal parts of its size besides")
	flags.StringVar(&s.saves, "saves", "", "when workers save what they publish: steps, once or after\n(default: as they do: in steps where these cost at most 3 % of computing, else after the answer)")
	flags.IntVar(&s.blockTokens, "block-tokens", 0, "tokens of the trace's blocks (default: inferred)")
	flags.IntVar(&s.pageTokens, "page-tokens", 0, "cut blocks into full pages of so many tokens, as workers do, by default with 256\n(default: the trace's blocks, whether or not they are full)")
	flags.Uint64Var(&s.grid.Seed, "seed", 1, "of what is random: when requests of one tick come")
	if err := cmd.MarkFlagRequired("trace"); err != nil {
		panic(err) // the flag is defined above
	}
	cmd.AddCommand(newSimulateConvertCommand(), newSimulateReplayCommand())
	return cmd
}

func (s *simulation) run(cmd *cobra.Command) error {
	if err := checkOut(s.out); err != nil {
		return err
	}
	if err := s.parse(); err != nil {
		return err
	}
	t, p, err := s.read()
	if err != nil {
		return err
	}
	f, err := s.play(cmd.Context(), t, p, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return tell(cmd, f, s.out, s.asJSON, func() error { return simulate.Summarize(cmd.OutOrStdout(), f) })
}

// parse turns words into what they mean.
func (s *simulation) parse() error {
	for _, name := range s.policies {
		p, err := simulate.ParsePolicy(name)
		if err != nil {
			return fmt.Errorf("--policy: %w", err)
		}
		s.grid.Policies = append(s.grid.Policies, p)
	}
	size, err := humanize.ParseBytes(s.workerCache)
	if err != nil {
		return fmt.Errorf("--worker-cache: %w", err)
	}
	s.grid.WorkerCache = int64(min(size, 1<<62))
	if s.grid.Costs, err = simulate.ReadCosts(s.costs); err != nil {
		return fmt.Errorf("--costs: %w", err)
	}
	s.grid.Saves = simulate.Saves(s.saves)
	return s.grid.Validate()
}

func (s *simulation) read() (*trace.Trace, *trace.Pages, error) {
	file, err := os.Open(s.trace)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the trace: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	t, err := trace.Read(file, s.blockTokens)
	if err != nil {
		return nil, nil, fmt.Errorf("reading %s: %w (its form is in docs/simulate.md; --block-tokens says how long blocks are)", s.trace, err)
	}
	if s.pageTokens == 0 {
		return t, t.Blocks(), nil
	}
	p, err := t.Cut(s.pageTokens)
	if err != nil {
		return nil, nil, fmt.Errorf("--page-tokens: %w", err)
	}
	return t, p, nil
}

// play simulates, with progress on errors.
func (s *simulation) play(ctx context.Context, t *trace.Trace, p *trace.Pages, errors io.Writer) (*results.Simulation, error) {
	progress := bench.NewProgress(errors)
	defer progress.Close()
	step, end := progress.Stage("simulating clusters", len(s.grid.Cells(p)))
	cells, outcomes, err := s.grid.Run(ctx, p, step)
	end()
	if err != nil {
		return nil, err
	}
	f := s.grid.File(t, p, cells, outcomes)
	f.GeneratedAt = time.Now()
	f.Command = commandLine()
	f.Versions = map[string]string{"ollamoon": version, "go": runtime.Version()}
	f.Trace.Name = filepath.Base(s.trace)
	return f, nil
}

func newSimulateConvertCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "convert LOG...",
		Short: "Make a trace of workers' request logs",
		Long: "Reads what workers wrote that were started with --ollamoon-request-log, and prints\n" +
			"the trace of their requests, in order of time.",
		Example: "  ollamoon simulate convert worker-1.log worker-2.log > trace.jsonl",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			var logs []io.Reader
			for _, name := range args {
				file, openErr := os.Open(name) //nolint:gosec // the user names the file
				if openErr != nil {
					return fmt.Errorf("reading a request log: %w", openErr)
				}
				defer func() { err = errors.Join(err, file.Close()) }()
				logs = append(logs, file)
			}
			requests, blockTokens, err := trace.Convert(cmd.OutOrStdout(), io.MultiReader(logs...))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%d requests; blocks of %d tokens\n", requests, blockTokens)
			return err
		},
	}
}
