package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ollamoon/internal/ollama"
	"ollamoon/internal/settings"
)

// errNotShared: an installation does not share its prompt cache, or not as it
// should.
var errNotShared = errors.New("this Ollama does not share its prompt cache as it could")

// ollamaFlags are those by which an installation is found.
func ollamaFlags(cmd *cobra.Command, o *ollama.Options) {
	cmd.Flags().StringVar(&o.Lib, "lib", "", "the folder of Ollama's libraries, with its llama-server\n(default: looked for beside the ollama on PATH, of the service, and where packages put it)")
	like(cmd, "lib", "/usr/local/lib/ollama")
	if err := cmd.MarkFlagDirname("lib"); err != nil {
		panic(err) // the flag is defined above
	}
	cmd.Flags().StringVar(&o.User, "user", "", "the user as whom Ollama runs\n(default: the service's, or that of a running ollama serve, or yours)")
	like(cmd, "user", "ollama")
}

// thisProgram finds the program that the stand-in is a copy of.
func thisProgram(o *ollama.Options) (err error) {
	if o.Program, err = os.Executable(); err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	return nil
}

func newAttachCommand() *cobra.Command {
	var o ollama.Options
	var s settings.Settings
	cmd := &cobra.Command{
		Use:   "attach",
		Short: "Let an installed Ollama share its prompt cache",
		Long: "Puts a copy of this program in the place of the llama-server that an installed\n" +
			"Ollama starts, and the real one beside it as llama-server.real. Ollama works as\n" +
			"before, and prompts that begin alike are computed once. At every moment there is\n" +
			"a llama-server that works; ollamoon detach puts the real one back.\n\n" +
			"After an update of Ollama, which puts its own llama-server back, run it again:\n" +
			"the settings are kept. Run it with sudo where Ollama was installed so.",
		Example: "  sudo ollamoon attach\n" +
			"  sudo ollamoon attach --store \"mooncake://10.0.0.1:50051\"\n" +
			"  ollamoon attach --lib ~/ollama/lib/ollama --store file:/data/pages?budget=50GiB",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Set = map[string]string{}
			cmd.Flags().Visit(func(f *pflag.Flag) {
				if isSetting(f.Name) {
					o.Set[f.Name] = f.Value.String()
				}
			})
			if err := thisProgram(&o); err != nil {
				return err
			}
			r, err := ollama.Attach(cmd.Context(), o)
			if err != nil {
				return err
			}
			return sayAttached(cmd.OutOrStdout(), r)
		},
	}
	ollamaFlags(cmd, &o)
	settingFlags(cmd, &s, "binary")
	return cmd
}

func sayAttached(w io.Writer, r *ollama.Result) error {
	if !r.Changed {
		_, err := fmt.Fprintf(w, "attached to %s already; nothing was to be done\n", r.Lib)
		return err
	}
	fmt.Fprintf(w, "attached to %s\n  settings  %s\n  store     %s\n  Ollama    runs as user %s (%s)\n", r.Lib, r.Settings, r.Store, r.Account.Name, r.Account.Why)
	for _, note := range r.Notes {
		fmt.Fprintf(w, "  note      %s\n", note)
	}
	return sayRestart(w, r.Restart)
}

func sayRestart(w io.Writer, restart string) error {
	if restart == "" {
		_, err := fmt.Fprintln(w, "it counts for every model that is loaded from now on")
		return err
	}
	_, err := fmt.Fprintf(w, "it counts for every model that is loaded from now on; for those loaded already: %s\n", restart)
	return err
}

func newDetachCommand() *cobra.Command {
	var o ollama.Options
	cmd := &cobra.Command{
		Use:     "detach",
		Short:   "Put back the llama-server of an installed Ollama",
		Long:    "Undoes ollamoon attach: the llama-server that Ollama came with is back, the file\nthat it was. The settings stay for another time, and so do the pages in the store.",
		Example: "  sudo ollamoon detach",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := ollama.Detach(cmd.Context(), o)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if !r.Changed {
				_, err := fmt.Fprintf(w, "%s is not attached; nothing was to be done\n", r.Lib)
				return err
			}
			fmt.Fprintf(w, "detached from %s\n", r.Lib)
			if dir, ok := strings.CutPrefix(r.Store, "file:"); ok && dir != "" {
				fmt.Fprintf(w, "  the pages in %s stay; remove that folder if nobody else uses it\n", dir)
			}
			return sayRestart(w, r.Restart)
		},
	}
	ollamaFlags(cmd, &o)
	return cmd
}

func newStatusCommand() *cobra.Command {
	var o ollama.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say whether an installed Ollama shares its prompt cache",
		Long: "Says whether ollamoon is attached to an installed Ollama, with which settings and\n" +
			"store, which of its models are shared at the moment, and what is wrong, with what\n" +
			"to do. Ends with status 1 unless it is attached and nothing is wrong.",
		Example: "  ollamoon status\n  ollamoon status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := thisProgram(&o); err != nil {
				return err
			}
			s, err := ollama.Look(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), s)
			} else {
				err = sayStatus(cmd.OutOrStdout(), s)
			}
			switch {
			case err != nil:
				return err
			case len(s.Problems) > 0:
				return fmt.Errorf("%w: things to do: %d", errNotShared, len(s.Problems))
			case !s.Attached:
				return fmt.Errorf("%w: it is not attached (ollamoon attach)", errNotShared)
			}
			return nil
		},
	}
	ollamaFlags(cmd, &o)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func sayStatus(w io.Writer, s *ollama.Status) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Ollama    %s in %s\n", or(s.Version, "of unknown version"), s.Lib)
	for _, f := range s.Folders {
		fmt.Fprintf(&b, "%-9s %s, the real llama-server is %s", f.State, f.Path, or(f.Real, "not to be run"))
		if f.StandIn != "" {
			fmt.Fprintf(&b, ", the stand-in %s", f.StandIn)
		}
		b.WriteByte('\n')
	}
	if s.Settings != "" {
		fmt.Fprintf(&b, "settings  %s\nstore     %s, as user %s\n", s.Settings, or(s.Store, "not to be told"), or(s.User, "unknown"))
	}
	for _, r := range s.Running {
		fmt.Fprintf(&b, "running   %s (process %d): ", r.URL, r.PID)
		if r.Sharing {
			fmt.Fprintf(&b, "prompts are shared, %s\n", r.Store)
		} else {
			fmt.Fprintf(&b, "prompts are not shared: %s\n", r.Reason)
		}
	}
	for _, p := range s.Problems {
		fmt.Fprintf(&b, "to do     %s\n", p)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
