package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ollamoon/internal/settings"
)

// exampleValue annotates a flag with a right value, for messages.
const exampleValue = "ollamoon_example"

// like notes a right value of a flag.
func like(cmd *cobra.Command, flag, value string) {
	if err := cmd.Flags().SetAnnotation(flag, exampleValue, []string{value}); err != nil {
		panic(err) // the flag is defined before
	}
}

// required makes flags required, each with a right value.
func required(cmd *cobra.Command, values ...string) {
	for pair := range slices.Chunk(values, 2) {
		like(cmd, pair[0], pair[1])
		if err := cmd.MarkFlagRequired(pair[0]); err != nil {
			panic(err) // as above
		}
	}
}

// errRequired: a flag is needed and not given.
var errRequired = errors.New("too few flags")

// flagError adds to an error about a flag a value that is right, or where they
// are listed.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var flag *pflag.Flag
	switch {
	case errors.As(err, &value):
		flag = value.GetFlag()
	case errors.As(err, &missing):
		flag = missing.GetFlag()
	}
	if flag != nil {
		return fmt.Errorf("%w%s", err, asIn(flag))
	}
	return fmt.Errorf("%w; \"%s --help\" lists those there are", err, cmd.CommandPath())
}

// asIn is the end of a message about a flag.
func asIn(flag *pflag.Flag) string {
	if example := flag.Annotations[exampleValue]; len(example) > 0 {
		return fmt.Sprintf("; as in --%s %s", flag.Name, example[0])
	}
	if flag.DefValue != "" && flag.NoOptDefVal == "" {
		return fmt.Sprintf("; as in --%s %s", flag.Name, flag.DefValue)
	}
	return ""
}

// checkRequired returns an error for required flags that are not given, before
// cobra would, with right values.
func checkRequired(cmd *cobra.Command, _ []string) error {
	if cmd.DisableFlagParsing {
		return nil
	}
	var missing []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 && !f.Changed {
			missing = append(missing, "--"+f.Name+" is needed"+asIn(f))
		}
	})
	if missing == nil {
		return nil
	}
	return fmt.Errorf("%w: %s", errRequired, strings.Join(missing, "; "))
}

// A choice is the value of a flag that has one of several words.
type choice struct {
	to    *string
	words []string
}

func (c choice) Type() string   { return strings.Join(c.words, "|") }
func (c choice) String() string { return *c.to }

func (c choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("it is one of %s", strings.Join(c.words, ", "))
	}
	*c.to = word
	return nil
}

// choiceVar defines a flag that has one of several words, which shells complete;
// the first is the default.
func choiceVar(cmd *cobra.Command, to *string, name, usage string, words ...string) {
	*to = words[0]
	cmd.Flags().Var(choice{to, words}, name, usage)
	complete(cmd, name, words)
}

// complete lets shells complete a flag's words, or nothing where there are none.
func complete(cmd *cobra.Command, name string, words []string) {
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is defined before
	}
}

// settingExamples are right values of settings that are no matter of words.
var settingExamples = map[string]string{
	"store": "file:/var/cache/pages?budget=20GiB", "deadline": "5s", "tenant": "team-a", "page-tokens": "128", "seal-key-file": "/etc/ollamoon/key",
}

// isSetting reports whether a flag is one of the stand-in's settings.
func isSetting(flag string) bool { return new(settings.Settings).Flags().Lookup(flag) != nil }

// settingFlags gives a command the stand-in's settings as flags, but for some.
func settingFlags(cmd *cobra.Command, s *settings.Settings, but ...string) {
	s.Flags().VisitAll(func(f *pflag.Flag) {
		if slices.Contains(but, f.Name) {
			return
		}
		cmd.Flags().AddFlag(f)
		if words := settings.Words(f.Name); words != nil {
			complete(cmd, f.Name, words)
		}
		if value, ok := settingExamples[f.Name]; ok {
			like(cmd, f.Name, value)
		}
	})
}
