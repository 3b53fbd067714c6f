package main

import (
	"github.com/spf13/cobra"

	"ollamoon/internal/bench"
	"ollamoon/internal/cluster"
	"ollamoon/internal/results"
	"ollamoon/internal/supervise"
)

// A benchTTFT is what the flags of bench ttft say.
type benchTTFT struct {
	options    bench.Options
	what       bench.TTFTOptions
	out, seal  string
	json       bool
	segmentMiB int64
}

func newBenchTTFTCommand() *cobra.Command {
	b := &benchTTFT{options: bench.Options{Version: version}}
	cmd := &cobra.Command{
		Use:   "ttft [--json] [--out FILE]",
		Short: "Measure times to the first token, and what sharing prompts costs",
		Long: "Starts a Mooncake Store and llama-servers with a small model on loopback: a stock\n" +
			"one, and workers that share their prompt cache. In one run it measures times to\n" +
			"the first token of prompts that are computed, that are in the slot, and that\n" +
			"another process has computed and that come from Mooncake over TCP or from files;\n" +
			"what publishing, a lookup that misses and a stand-in without a store add; the\n" +
			"memory of the stand-in; and from where on loading is quicker than computing.\n" +
			"docs/bench.md says what each figure is.\n\n" +
			"Mooncake's programs, llama-server and the model are those that scripts/setup.sh\n" +
			"installs. As it is it takes about five minutes on two processors.",
		Example: "  ollamoon bench ttft\n" +
			"  ollamoon bench ttft --tokens 1793 --rounds 5 --out ttft.json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&b.json, "json", false, "print the results file instead of tables")
	flags.StringVar(&b.out, "out", "", "results file to write (default: none)")
	flags.IntSliceVar(&b.what.Tokens, "tokens", []int{1793, 7937}, "lengths of prompts, of which whole pages of 256 tokens are shared")
	flags.IntVar(&b.what.Rounds, "rounds", 3, "how often a prompt of each length is computed and published")
	flags.IntVar(&b.what.Turns, "turns", 4, "how often each is reused in a round")
	flags.IntVar(&b.what.Requests, "requests", 40, "how often small costs are measured; the speed of answers a quarter of it")
	flags.IntVar(&b.what.Answer, "answer", 64, "tokens of the answers whose speed is measured")
	flags.Float64SliceVar(&b.what.Prefill, "prefill", []float64{50, 500, 5000}, "speeds of prefill for which loading's break-even is told, in tokens a second")
	choiceVar(cmd, &b.options.Metadata, "metadata", "how a segment's data port is found", cluster.MetadataHTTP, cluster.MetadataP2P)
	choiceVar(cmd, &b.seal, "seal", "what proves a page when it is read", string(bench.Checksum), string(bench.MAC))
	flags.Int64Var(&b.segmentMiB, "segment-mib", 512, "memory of the store, in MiB")
	flags.StringVar(&b.options.Programs, "mooncake-dir", "", "folder of mooncake_master and mooncake_client inside the wheel's environment\n(default: as installed by scripts/setup.sh)")
	flags.StringVar(&b.options.Logs, "logs", "", "existing folder for the store's logs (default: none are kept)")
	return cmd
}

func (b *benchTTFT) run(cmd *cobra.Command) error {
	if err := checkOut(b.out); err != nil {
		return err
	}
	program, err := ownPath()
	if err != nil {
		return err
	}
	b.what.Worker = supervise.Command{Path: program, Args: []string{standInName}}
	b.options.Seal, b.options.SegmentBytes = bench.Seal(b.seal), b.segmentMiB<<20
	b.options.Command = commandLine()
	f, err := b.measure(cmd)
	if err != nil {
		return err
	}
	return tell(cmd, f, b.out, b.json, func() error { return bench.SummarizeTTFT(cmd.OutOrStdout(), f) })
}

// measure runs with progress on standard error.
func (b *benchTTFT) measure(cmd *cobra.Command) (*results.TTFT, error) {
	b.options.Progress = bench.NewProgress(cmd.ErrOrStderr())
	defer b.options.Progress.Close()
	return bench.RunTTFT(cmd.Context(), b.options, b.what)
}
