package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"ollamoon/internal/bench"
	"ollamoon/internal/cluster"
	"ollamoon/internal/results"
	"ollamoon/internal/supervise"
	"ollamoon/internal/wholefile"
)

func newBenchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a store, and what a model gains by it",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchStoreCommand(), newBenchDemoCommand(), newBenchRouteCommand(), newBenchRouteWorkerCommand(), newBenchTTFTCommand(), newBenchApartCommand(), newBenchContenderCommand(), newBenchSenderCommand())
	return cmd
}

func newBenchStoreCommand() *cobra.Command {
	return newBenchRunCommand(&cobra.Command{
		Use:   "store --out FILE",
		Short: "Measure a Mooncake Store on this machine, and write a results file",
		Long: "Starts a Mooncake Store on loopback and measures how fast one request's KV pages\n" +
			"are published and another's are reloaded: with this program over TCP and over\n" +
			"shared memory, and with Mooncake's Python client, in turn, next to what the\n" +
			"machine does without a store. Every loaded byte is compared with what was\n" +
			"published. The figures go to a results file, a summary to standard output.\n\n" +
			"Mooncake's programs are those that scripts/setup.sh installs.",
		Example: "  ollamoon bench store --out results.json\n" +
			"  ollamoon bench store --out results.json --metadata p2p --seal mac",
	}, nil)
}

func newBenchDemoCommand() *cobra.Command {
	return newBenchRunCommand(&cobra.Command{
		Use:   "demo --out FILE",
		Short: "Measure a Mooncake Store and what a real model gains by it",
		Long: "Does what bench store does. Then two workers, llama-servers that share their prompt\n" +
			"cache through the same store, get prompts of 2,048 tokens of which 1,792 are the\n" +
			"same: the first computes and publishes, the second loads. Their answers are\n" +
			"compared with those of a llama-server without Ollamoon.\n\n" +
			"Mooncake's programs, llama-server and the model are those that scripts/setup.sh\n" +
			"installs.",
		Example: "  ollamoon bench demo --out results.json",
	}, &bench.EngineOptions{Tokens: 2048, Shared: 1792})
}

// newBenchRunCommand completes a command that measures and writes a results file.
func newBenchRunCommand(cmd *cobra.Command, engine *bench.EngineOptions) *cobra.Command {
	o := bench.Options{Version: version, Engine: engine}
	var out, seal string
	var segmentMiB int64
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := wholefile.Check(out); err != nil { // known before the run, not after it
			return fmt.Errorf("the results file: %w", err)
		}
		program, err := ownPath()
		if err != nil {
			return err
		}
		o.Contender = supervise.Command{Path: program, Args: []string{"bench", "contender"}}
		o.Sender = supervise.Command{Path: program, Args: []string{"bench", "sender"}}
		if o.Engine != nil {
			o.Engine.Worker = supervise.Command{Path: program, Args: []string{standInName}}
		}
		o.Seal, o.SegmentBytes = bench.Seal(seal), segmentMiB<<20
		if o.Command == "" {
			o.Command = commandLine()
		}
		f, err := runBench(cmd, o)
		if err != nil {
			return err
		}
		if err := f.Write(out); err != nil {
			return err
		}
		if err := bench.Summarize(cmd.OutOrStdout(), f); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "\nresults: %s\n", out)
		return err
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "results file to write (required)")
	flags.IntVar(&o.Iterations, "iterations", 20, "timed reloads of each client")
	flags.IntVar(&o.Rounds, "rounds", 7, "timed rounds of publishing of each client")
	choiceVar(cmd, &o.Metadata, "metadata", "how a segment's data port is found", cluster.MetadataHTTP, cluster.MetadataP2P)
	choiceVar(cmd, &seal, "seal", "what proves a page when it is read", string(bench.Checksum), string(bench.MAC), string(bench.NoSeal))
	flags.Int64Var(&segmentMiB, "segment-mib", 512, "memory of the store, in MiB")
	flags.StringVar(&o.Programs, "mooncake-dir", "", "folder of mooncake_master and mooncake_client inside the wheel's environment\n(default: as installed by scripts/setup.sh)")
	flags.StringVar(&o.Logs, "logs", "", "existing folder for the store's logs (default: none are kept)")
	flags.StringVar(&o.Command, "reproduce", "", "command that the results file names as reproducing it\n(default: this one)")
	required(cmd, "out", "results.json")
	return cmd
}

// runBench runs with progress on standard error.
func runBench(cmd *cobra.Command, o bench.Options) (*results.File, error) {
	o.Progress = bench.NewProgress(cmd.ErrOrStderr())
	defer o.Progress.Close()
	return bench.Run(cmd.Context(), o)
}

func newBenchContenderCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "contender SOCKET",
		Short:  "Be measured by bench store, which starts this",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(cmd *cobra.Command, args []string) error { return bench.Serve(cmd.Context(), args[0]) },
	}
}

func newBenchSenderCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "sender ADDRESS PAGES BYTES",
		Short:  "Send a loopback stream to bench store, which starts this",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			pages, err := strconv.Atoi(args[1])
			if err != nil {
				return fmt.Errorf("the number of pages: %w", err)
			}
			size, err := strconv.Atoi(args[2])
			if err != nil {
				return fmt.Errorf("the size of a page: %w", err)
			}
			return bench.Send(cmd.Context(), args[0], pages, size)
		},
	}
}
