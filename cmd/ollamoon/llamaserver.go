package main

import (
	"os"

	"github.com/spf13/cobra"

	"ollamoon/internal/standin"
)

// standInName is the command that stands in for llama-server, and the name under
// which this program is that command.
const standInName = "llama-server"

func newLlamaServerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   standInName + " [arguments of llama-server]",
		Short: "Run llama-server with its prompt cache shared",
		Long: "Runs in the place of llama-server, whose arguments it takes: starts the real one\n" +
			"behind it and shares its prompt cache. The same happens when this program is\n" +
			"started under the name llama-server. --ollamoon-help lists its own settings.",
		Example: "  ollamoon llama-server -m model.gguf --port 8080\n" +
			"  ollamoon llama-server -m model.gguf --ollamoon-store mooncake://127.0.0.1:50051",
		DisableFlagParsing: true, // they are llama-server's
		Run: func(cmd *cobra.Command, args []string) {
			standin.Run(cmd.Context(), os.Args[0], args, os.Environ()).Now()
		},
	}
}
