package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"ollamoon/internal/bench/routing"
	"ollamoon/internal/supervise"
)

func newBenchRouteCommand() *cobra.Command {
	var o routing.Options
	var out string
	cmd := &cobra.Command{
		Use:   "route [--out FILE]",
		Short: "Measure what a router adds between a client and a worker",
		Long: "Starts a router in front of a worker that takes no time, and measures the time to\n" +
			"the first byte of requests by way of the router, in turn with the same ones\n" +
			"straight to the worker; then the router's memory with idle streams open, and the\n" +
			"times beside them.",
		Example: "  ollamoon bench route",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOut(out); err != nil {
				return err
			}
			program, err := ownPath()
			if err != nil {
				return err
			}
			o.Router = supervise.Command{Path: program, Args: []string{"route"}}
			o.Worker = supervise.Command{Path: program, Args: []string{"bench", "route-worker"}}
			o.Progress = cmd.ErrOrStderr()
			result, err := routing.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			if out != "" {
				if err := result.Write(out); err != nil {
					return err
				}
			}
			return routing.Summarize(cmd.OutOrStdout(), result)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "file to write the figures to, as JSON")
	flags.IntVar(&o.Rounds, "rounds", 5, "rounds, of which the median counts")
	flags.IntVar(&o.Pairs, "pairs", 1000, "pairs of requests in each round")
	flags.IntVar(&o.Tokens, "tokens", 2048, "tokens of each request's prompt, about")
	flags.IntVar(&o.Streams, "streams", routing.GoalStreams, "streams that are held open")
	return cmd
}

func newBenchRouteWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "route-worker PORT",
		Short:  "Be the worker of bench route, which starts this",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			port, err := strconv.Atoi(args[0])
			if err != nil {
				return fmt.Errorf("the port: %w", err)
			}
			return routing.Work(cmd.Context(), port)
		},
	}
}
