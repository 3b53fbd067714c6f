package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

var (
	// ErrHelp: --ollamoon-help is among the arguments.
	ErrHelp = errors.New("settings: help is asked for")
	// ErrUnknown: there is no setting of that name.
	ErrUnknown = errors.New("settings: no such setting")
	// ErrValue: a setting cannot have that value.
	ErrValue = errors.New("settings: bad value")
)

// FileName is that of a settings file beside a program that stands in.
const FileName = "ollamoon.yaml"

// Load returns the settings from arguments, the environment and files, and the
// arguments that are not settings. Beside, if not empty, is the path of a file that
// is read before the user's, if it is there.
func Load(args, environ []string, beside string) (Settings, []string, error) {
	var s Settings
	l := loader{flags: s.flags(), set: map[string]bool{}}
	rest, config, err := l.arguments(args)
	if err != nil {
		return Settings{}, nil, err
	}
	variables := map[string]string{}
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok && value != "" {
			variables[name] = value
		}
	}
	if config == "" {
		config = variables[variablePrefix+strings.ToUpper(configFlag)]
	}
	if err := l.variables(variables); err != nil {
		return Settings{}, nil, err
	}
	if config != "" {
		if err := l.file(config); err != nil {
			return Settings{}, nil, err
		}
		return s, rest, nil
	}
	for _, path := range files(beside) {
		if err := l.file(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Settings{}, nil, err
		}
	}
	return s, rest, nil
}

// files are read when none is named, the stronger first.
func files(beside string) []string {
	var paths []string
	if beside != "" {
		paths = append(paths, beside)
	}
	if folder, err := os.UserConfigDir(); err == nil {
		paths = append(paths, filepath.Join(folder, "ollamoon", "config.yaml"))
	}
	return append(paths, "/etc/ollamoon/config.yaml")
}

// Given reports whether there are settings among the arguments.
func Given(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, flagPrefix) })
}

// A loader takes sources, the strongest first: what is set stays.
type loader struct {
	flags *pflag.FlagSet
	set   map[string]bool
}

// put sets what no stronger source has set.
func (l *loader) put(name, value, where string) error {
	if l.flags.Lookup(name) == nil {
		return l.unknown(name, where)
	}
	if l.set[name] {
		return nil
	}
	if err := l.flags.Set(name, value); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrValue, where, err)
	}
	return nil
}

// done says that a source is over: what it has set is weaker sources' no more.
func (l *loader) done() {
	l.flags.Visit(func(f *pflag.Flag) { l.set[f.Name] = true })
}

func (l *loader) unknown(name, where string) error {
	var names []string
	l.flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return fmt.Errorf("%w: %s: %q; there are %s", ErrUnknown, where, name, strings.Join(names, ", "))
}

// arguments takes the flags of settings out of args. Of one that is given twice
// the last counts.
func (l *loader) arguments(args []string) (rest []string, config string, err error) {
	for i := 0; i < len(args); i++ {
		given, ours := strings.CutPrefix(args[i], flagPrefix)
		if !ours {
			rest = append(rest, args[i])
			continue
		}
		name, value, valued := strings.Cut(given, "=")
		if name == helpFlag {
			return nil, "", ErrHelp
		}
		flag := l.flags.Lookup(name)
		switch {
		case flag == nil && name != configFlag:
			return nil, "", l.unknown(name, args[i])
		case valued:
		case flag != nil && flag.NoOptDefVal != "":
			value = flag.NoOptDefVal
		case i+1 == len(args):
			return nil, "", fmt.Errorf("%w: %s: it needs one", ErrValue, args[i])
		default:
			i++
			value = args[i]
		}
		if name == configFlag {
			config = value
			continue
		}
		if err := l.put(name, value, flagPrefix+name); err != nil {
			return nil, "", err
		}
	}
	l.done()
	return rest, config, nil
}

func (l *loader) variables(values map[string]string) error {
	defer l.done()
	var failed error
	l.flags.VisitAll(func(f *pflag.Flag) {
		name := variablePrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, ok := values[name]; ok && failed == nil {
			failed = l.put(f.Name, value, name)
		}
	})
	return failed
}

func (l *loader) file(path string) error {
	defer l.done()
	data, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return fmt.Errorf("reading settings: %w", err)
	}
	var values map[string]yaml.Node
	if err := yaml.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrValue, path, err)
	}
	for name, value := range values {
		where := fmt.Sprintf("%s, line %d", path, value.Line)
		text, ok := l.text(name, value)
		if !ok {
			return fmt.Errorf("%w: %s: %s is no single value", ErrValue, where, name)
		}
		if err := l.put(name, text, where); err != nil {
			return err
		}
	}
	return nil
}

// text returns the text of a value in a file; the words of a list become what a
// flag would be given.
func (l *loader) text(name string, value yaml.Node) (string, bool) {
	if value.Kind == yaml.ScalarNode {
		return value.Value, true
	}
	f := l.flags.Lookup(name)
	if f == nil || value.Kind != yaml.SequenceNode {
		return "", false
	}
	if _, list := f.Value.(pflag.SliceValue); !list {
		return "", false
	}
	words := make([]string, len(value.Content))
	for i, word := range value.Content {
		if word.Kind != yaml.ScalarNode {
			return "", false
		}
		words[i] = word.Value
	}
	return strings.Join(words, ","), true
}
