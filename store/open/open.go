// Package open opens stores by URL, so that package store does not depend on its
// backends:
//
//	file:FOLDER           files in a folder; without one, in the user's cache folder
//	memory:               memory of this process
//	mooncake://HOST:PORT  a Mooncake Store, by its master
//	mooncake:             one that Mooncake's own variables name
//	none                  no store: nothing is kept
//
// Parameters follow a question mark. The budget is the most that a store keeps:
// file:/var/cache/pages?budget=20GiB, memory:?budget=512MiB. A Mooncake Store has
// metadata (http://HOST:PORT/metadata, or P2PHANDSHAKE, the default), tenant,
// replicas, and shared_memory (auto, off, or the port of a mooncake_client).
package open

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	client "ollamoon/mooncake"
	"ollamoon/store"
	"ollamoon/store/file"
	"ollamoon/store/memory"
	"ollamoon/store/mooncake"
)

// None is the URL of no store.
const None = "none"

// DefaultMemoryBytes is the budget of a store in memory whose URL has none.
const DefaultMemoryBytes = 1 << 30

// Forms is what URLs look like, a line each, for messages and help.
const Forms = `file:FOLDER[?budget=20GiB]
memory:[?budget=1GiB]
mooncake://MASTER:PORT[?metadata=http://HOST:PORT/metadata][&tenant=NAME][&replicas=N][&shared_memory=auto|off|PORT]
mooncake: (as MOONCAKE_CONFIG_PATH or MOONCAKE_MASTER says)
none`

// ErrURL is returned for a URL that names no store. The message has the forms
// that do.
var ErrURL = errors.New("store/open: this names no store")

// Store opens the store that a URL names. The logger gets what no error reports;
// nil discards it.
func Store(ctx context.Context, rawURL string, logger *slog.Logger) (store.Store, error) {
	scheme, rest, found := strings.Cut(rawURL, ":")
	where, query, _ := strings.Cut(rest, "?")
	var s store.Store
	var err error
	switch {
	case rawURL == None:
		return nothing{}, nil
	case scheme == "file" && found:
		s, err = openFile(where, query)
	case scheme == "memory" && found:
		s, err = openMemory(where, query)
	case scheme == "mooncake" && found:
		s, err = openMooncake(ctx, where, query, logger)
	default:
		err = errScheme
	}
	if err != nil {
		return nil, explained(rawURL, err)
	}
	return s, nil
}

// Check returns an error for a URL that names no store. It opens none.
func Check(rawURL string) error {
	scheme, rest, found := strings.Cut(rawURL, ":")
	where, query, _ := strings.Cut(rest, "?")
	var err error
	switch {
	case rawURL == None:
	case scheme == "file" && found:
		_, err = fileConfig(where, query)
	case scheme == "memory" && found:
		_, err = memoryBudget(where, query)
	case scheme == "mooncake" && found:
		_, err = mooncakeConfig(where, query)
	default:
		err = errScheme
	}
	return explained(rawURL, err)
}

const errScheme = formError("it begins with none of file:, memory:, mooncake:")

// explained adds to an error about the form of a URL the forms that there are.
func explained(rawURL string, err error) error {
	var form formError
	if errors.As(err, &form) {
		return fmt.Errorf("%w: %q: %w\nwhat does:\n%s", ErrURL, rawURL, err, Forms)
	}
	return err
}

// A formError says what is wrong with a URL.
type formError string

func (e formError) Error() string { return string(e) }

func openFile(where, query string) (store.Store, error) {
	config, err := fileConfig(where, query)
	if err != nil {
		return nil, err
	}
	return file.Open(config)
}

func fileConfig(where, query string) (file.Config, error) {
	p, err := parse(query, "budget")
	if err != nil {
		return file.Config{}, err
	}
	budget, err := p.bytes("budget", file.DefaultBudgetBytes)
	if err != nil {
		return file.Config{}, err
	}
	dir, err := folder(where)
	return file.Config{Dir: dir, BudgetBytes: budget}, err
}

// folder returns the folder that a file URL names.
func folder(where string) (string, error) {
	switch {
	case where == "":
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("store/open: the user's cache folder: %w", err)
		}
		return filepath.Join(cache, "ollamoon", "pages"), nil
	case strings.HasPrefix(where, "//") && !strings.HasPrefix(where, "///"):
		return "", formError("a folder is on this machine: file:/FOLDER or file:///FOLDER")
	case where == "~" || strings.HasPrefix(where, "~/"):
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("store/open: the user's home folder: %w", err)
		}
		return filepath.Join(home, where[1:]), nil
	}
	return where, nil
}

// Folder returns the folder of a store that keeps files, and false for the URL of
// any other.
func Folder(rawURL string) (dir string, ok bool, err error) {
	rest, found := strings.CutPrefix(rawURL, "file:")
	if !found {
		return "", false, nil
	}
	where, _, _ := strings.Cut(rest, "?")
	dir, err = folder(where)
	return dir, true, err
}

func openMemory(where, query string) (store.Store, error) {
	budget, err := memoryBudget(where, query)
	if err != nil {
		return nil, err
	}
	return memory.New(budget)
}

func memoryBudget(where, query string) (int64, error) {
	if where != "" {
		return 0, formError("memory: is not followed by a name")
	}
	p, err := parse(query, "budget")
	if err != nil {
		return 0, err
	}
	return p.bytes("budget", DefaultMemoryBytes)
}

// Mooncake returns how the Mooncake Store of a URL is reached, and false for the
// URL of any other.
func Mooncake(rawURL string) (config client.Config, ok bool, err error) {
	rest, found := strings.CutPrefix(rawURL, "mooncake:")
	if !found {
		return client.Config{}, false, nil
	}
	where, query, _ := strings.Cut(rest, "?")
	config, err = mooncakeConfig(where, query)
	return config, true, explained(rawURL, err)
}

func openMooncake(ctx context.Context, where, query string, logger *slog.Logger) (store.Store, error) {
	config, err := mooncakeConfig(where, query)
	if err != nil {
		return nil, err
	}
	config.Logger = logger
	return mooncake.Open(ctx, config)
}

func mooncakeConfig(where, query string) (client.Config, error) {
	if where == "" && query == "" {
		return client.ConfigFromEnvironment(os.Getenv)
	}
	master, found := strings.CutPrefix(where, "//")
	master = strings.TrimSuffix(master, "/")
	if !found || master == "" || strings.Contains(master, "/") {
		return client.Config{}, formError("a Mooncake Store is named by its master: mooncake://HOST:PORT")
	}
	p, err := parse(query, "metadata", "tenant", "replicas", "shared_memory")
	if err != nil {
		return client.Config{}, err
	}
	config := client.Config{Master: master, Metadata: p["metadata"], Tenant: p["tenant"], SharedMemory: p["shared_memory"]}
	if config.Metadata == "" {
		config.Metadata = "P2PHANDSHAKE"
	}
	if text, ok := p["replicas"]; ok {
		if config.Replicate.Replicas, err = strconv.Atoi(text); err != nil || config.Replicate.Replicas < 1 {
			return client.Config{}, formError(fmt.Sprintf("replicas is a number from 1, not %q", text))
		}
	}
	return config, nil
}

// parameters are those of a URL.
type parameters map[string]string

// parse returns the parameters of a query, each of which has to be known and to
// stand there once.
func parse(query string, known ...string) (parameters, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, formError("its parameters cannot be read: " + err.Error())
	}
	p := make(parameters, len(values))
	for name, all := range values {
		if !slices.Contains(known, name) {
			return nil, formError(fmt.Sprintf("it has no parameter %q; there are %s", name, strings.Join(known, ", ")))
		}
		if len(all) != 1 {
			return nil, formError(fmt.Sprintf("%s stands there %d times", name, len(all)))
		}
		p[name] = all[0]
	}
	return p, nil
}

// bytes returns a parameter that is a size, such as 20GiB.
func (p parameters) bytes(name string, unset int64) (int64, error) {
	text, ok := p[name]
	if !ok {
		return unset, nil
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return 0, formError(fmt.Sprintf("%s is a size such as 20GiB, not %q", name, text))
	}
	return int64(n), nil
}
