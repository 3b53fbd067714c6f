package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ollamoon/internal/doctor"
	"ollamoon/internal/settings"
)

// errSick: doctor has found something that keeps prompts from being shared.
var errSick = errors.New("prompts cannot be shared as it is")

func newDoctorCommand() *cobra.Command {
	var o doctor.Options
	var asked settings.Settings
	var config string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at everything that sharing prompts needs, and say what to do",
		Long: "Looks at the settings, an installed Ollama, the real llama-server and its libraries,\n" +
			"the folders for slot files with the memory that they have, the store (a Mooncake\n" +
			"Store's master with its protocol's version, metadata and owners' ports) and, where\n" +
			"one is named, a running worker. Settings are read as a worker reads them, of an\n" +
			"attached Ollama those of its stand-in. Ends with status 1 when something fails.",
		Example: "  ollamoon doctor\n" +
			"  ollamoon doctor --store \"mooncake://10.0.0.1:50051\"\n" +
			"  ollamoon doctor --worker http://127.0.0.1:8080 --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := thisProgram(&o.Ollama); err != nil {
				return err
			}
			var args []string
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if isSetting(f.Name) || f.Name == "config" {
					args = append(args, "--ollamoon-"+f.Name+"="+f.Value.String())
				}
			})
			beside := ""
			if found, err := o.Ollama.Find(o.Ollama.Lib); err == nil {
				beside = filepath.Join(found.Folders[0], settings.FileName)
			}
			o.Settings, _, o.SettingsError = settings.Load(args, os.Environ(), beside)
			if o.SettingsError == nil && o.Worker.URL != "" && !cmd.Flags().Changed("store") {
				o.Settings.Store = storeOf(cmd.Context(), o, o.Settings.Store)
			}
			findings := doctor.Look(cmd.Context(), o)
			var err error
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), findings)
			} else {
				err = sayFindings(cmd.OutOrStdout(), findings)
			}
			if n := doctor.Failed(findings, doctor.Fail); err == nil && n > 0 {
				return fmt.Errorf("%w: looks that failed: %d", errSick, n)
			}
			return err
		},
	}
	settingFlags(cmd, &asked)
	ollamaFlags(cmd, &o.Ollama)
	cmd.Flags().StringVar(&config, "config", "", "YAML file of settings (default: as for a worker)")
	cmd.Flags().StringVar(&o.Worker.URL, "worker", "", "URL of a running llama-server behind Ollamoon, whose store is looked at")
	like(cmd, "worker", "http://127.0.0.1:8080")
	cmd.Flags().StringVar(&o.Worker.APIKey, "api-key", os.Getenv("LLAMA_API_KEY"), "key that the worker asks for (default: LLAMA_API_KEY)")
	cmd.Flags().Lookup("api-key").DefValue = "" // no secret in the help
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// storeOf is a worker's store, or another where the worker does not tell.
func storeOf(ctx context.Context, o doctor.Options, otherwise string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, err := o.Worker.Status(ctx)
	if err != nil {
		return otherwise // the look at the worker says why
	}
	return status.Store
}

func sayFindings(w io.Writer, findings []doctor.Finding) error {
	var b strings.Builder
	for _, f := range findings {
		state := string(f.State)
		if f.State != doctor.OK {
			state = strings.ToUpper(state)
		}
		fmt.Fprintf(&b, "%-5s %-14s %s\n", state, f.About, strings.ReplaceAll(f.Found, "\n", "\n      "))
		if f.Do != "" {
			fmt.Fprintf(&b, "      %-14s %s\n", "  to do:", f.Do)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
