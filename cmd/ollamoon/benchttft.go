package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ollamoon/internal/bench"
	"ollamoon/internal/cluster"
	"ollamoon/internal/results"
	"ollamoon/internal/supervise"
	"ollamoon/internal/wholefile"
)

func newBenchTTFTCommand() *cobra.Command {
	o := bench.Options{Version: version}
	var what bench.TTFTOptions
	var out, seal string
	var asJSON bool
	var segmentMiB int64
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
			"installs. As it is it takes about five minutes.",
		Example: "  ollamoon bench ttft\n" +
			"  ollamoon bench ttft --tokens 1793 --rounds 5 --out ttft.json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out != "" {
				if err := wholefile.Check(out); err != nil { // known before the run, not after it
					return fmt.Errorf("the results file: %w", err)
				}
			}
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			what.Worker = supervise.Command{Path: program, Args: []string{standInName}}
			o.Seal, o.SegmentBytes = bench.Seal(seal), segmentMiB<<20
			o.Command = strings.Join(append([]string{"ollamoon"}, os.Args[1:]...), " ")
			f, err := runBenchTTFT(cmd, o, what)
			if err != nil {
				return err
			}
			if out != "" {
				if err := f.Write(out); err != nil {
					return err
				}
			}
			if !asJSON {
				return bench.SummarizeTTFT(cmd.OutOrStdout(), f)
			}
			data, err := f.JSON()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print the results file instead of tables")
	flags.StringVar(&out, "out", "", "results file to write (default: none)")
	flags.IntSliceVar(&what.Tokens, "tokens", []int{1793, 7937}, "lengths of prompts; whole pages of 256 tokens are shared")
	flags.IntVar(&what.Rounds, "rounds", 3, "how often a prompt of each length is computed and published")
	flags.IntVar(&what.Turns, "turns", 4, "how often each is reused in a round")
	flags.IntVar(&what.Requests, "requests", 30, "how often small costs are measured")
	flags.IntVar(&what.Answer, "answer", 64, "tokens of the answers whose speed is measured")
	flags.Float64SliceVar(&what.Prefill, "prefill", []float64{50, 500, 5000}, "speeds of prefill for which loading's break-even is told, in tokens a second")
	flags.StringVar(&o.Metadata, "metadata", cluster.MetadataHTTP, "how a segment's data port is found: http or p2p")
	flags.StringVar(&seal, "seal", string(bench.Checksum), "what proves a page when it is read: checksum or mac")
	flags.Int64Var(&segmentMiB, "segment-mib", 512, "memory of the store, in MiB")
	flags.StringVar(&o.Programs, "mooncake-dir", "", "folder of mooncake_master and mooncake_client inside the wheel's environment\n(default: as installed by scripts/setup.sh)")
	flags.StringVar(&o.Logs, "logs", "", "existing folder for the store's logs (default: none are kept)")
	return cmd
}

// runBenchTTFT runs with progress on standard error.
func runBenchTTFT(cmd *cobra.Command, o bench.Options, what bench.TTFTOptions) (*results.TTFT, error) {
	o.Progress = bench.NewProgress(cmd.ErrOrStderr())
	defer o.Progress.Close()
	return bench.RunTTFT(cmd.Context(), o, what)
}
