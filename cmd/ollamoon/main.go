// Command ollamoon gives Ollama and llama.cpp servers a prompt cache that
// processes and machines share. See the README.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "devel"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := newRootCommand()
	if filepath.Base(os.Args[0]) == standInName {
		root.SetArgs(append([]string{standInName}, os.Args[1:]...))
	}
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ollamoon:", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ollamoon",
		Short: "A prompt cache that Ollama and llama.cpp servers share",
		Long: "Ollamoon cuts the KV cache of prompts into pages and shares them through a\n" +
			"Mooncake Store, so that a prefix computed once is loaded everywhere else.",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: checkRequired,
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newKeysCommand(), newBenchCommand(), newReportCommand(), newSimulateCommand(), newLlamaServerCommand(), newUpCommand(), newRouteCommand(),
		newAttachCommand(), newDetachCommand(), newStatusCommand(), newLookupCommand(), newDoctorCommand())
	return root
}
