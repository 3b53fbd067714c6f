package main

import (
	"github.com/spf13/cobra"

	"ollamoon/internal/bench"
	"ollamoon/internal/supervise"
)

func newBenchApartCommand() *cobra.Command {
	var o bench.ApartOptions
	var out string
	cmd := &cobra.Command{
		Use:   "apart [--out FILE]",
		Short: "Measure streams while long prompts arrive: prefill and decode apart, and mixed",
		Long: "Starts two workers with a small model, of a thread each, and lets streams run while\n" +
			"long prompts arrive: once with two workers that do both, once with one that\n" +
			"prefills and one that answers, in turn. It shows the times between two tokens of\n" +
			"the streams, and the tokens a second of all. It takes some minutes.",
		Example: "  ollamoon bench apart --rounds 1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOut(out); err != nil {
				return err
			}
			program, err := ownPath()
			if err != nil {
				return err
			}
			o.Worker = supervise.Command{Path: program, Args: []string{"llama-server"}}
			o.Progress = bench.NewProgress(cmd.ErrOrStderr())
			o.Command = commandLine()
			result, err := bench.RunApart(cmd.Context(), o)
			if err != nil {
				return err
			}
			if out != "" {
				if err := result.Write(out); err != nil {
					return err
				}
			}
			return bench.SummarizeApart(cmd.OutOrStdout(), result)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "file to write the figures to, as JSON")
	flags.IntVar(&o.Streams, "streams", 2, "answers that run all the time")
	flags.IntSliceVar(&o.Prompts, "prompts", []int{1100, 900, 1300, 1000, 1200, 1400}, "tokens of the long prompts that arrive one after the other")
	flags.IntVar(&o.Batch, "batch", 128, "most tokens that a worker computes together; its streams stand still meanwhile")
	flags.IntVar(&o.Rounds, "rounds", 3, "rounds of both ways, of which the median counts")
	return cmd
}
