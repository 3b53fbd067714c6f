package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ollamoon/internal/lookup"
	"ollamoon/internal/remote"
	"ollamoon/internal/worker"
	"ollamoon/prefix"
	"ollamoon/store"
	"ollamoon/store/file"
	"ollamoon/store/open"
)

// What prompts are given as.
const (
	asText   = "text"
	asTokens = "tokens"
	asChat   = "chat"
)

// lookupTime bounds each question to a worker or a store.
const lookupTime = 30 * time.Second

// before is how many tokens are shown before the first that differs.
const before = 12

// errLookup: prompts cannot be looked up as asked.
var errLookup = errors.New("nothing can be looked up")

// A lookupCommand is what lookup was asked.
type lookupCommand struct {
	server   remote.Server
	as       string
	storeURL string
	keys     prefix.Config
	json     bool
	list     bool
}

func newLookupCommand() *cobra.Command {
	var l lookupCommand
	cmd := &cobra.Command{
		Use:   "lookup [PROMPT [OTHER]]",
		Short: "Say which pages of a prompt are in the store, or where two prompts part",
		Long: "Reads one prompt, or two, from files (- or nothing: standard input) and says which\n" +
			"of its pages the store has, and so how much of it a worker need not compute. Of\n" +
			"two prompts it also says which token is the first that differs, and in which page:\n" +
			"from there on they share nothing.\n\n" +
			"A running worker (a llama-server behind Ollamoon) turns text into tokens, and says\n" +
			"in which store and namespace to look. Without one, give token ids with --as tokens,\n" +
			"--model and --store.",
		Example: "  ollamoon lookup --worker http://127.0.0.1:8080 prompt.txt\n" +
			"  ollamoon lookup --worker http://127.0.0.1:8080 --as chat monday.json tuesday.json\n" +
			"  seq 600 | ollamoon lookup --as tokens --model gguf-5a1c5bd99c4b@0123... --store file:/var/cache/pages",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := l.run(cmd.Context(), cmd.InOrStdin(), args)
			if err != nil {
				return err
			}
			if l.json {
				return writeJSON(cmd.OutOrStdout(), report)
			}
			return report.Text(cmd.OutOrStdout(), l.list)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&l.server.URL, "worker", "", "URL of a running llama-server behind Ollamoon\n(ollamoon status lists those of an attached Ollama)")
	flags.StringVar(&l.server.APIKey, "api-key", os.Getenv("LLAMA_API_KEY"), "key that the worker asks for (default: LLAMA_API_KEY)")
	choiceVar(cmd, &l.as, "as", "what the files hold: the prompt, its token ids, or the body of a chat request", asText, asTokens, asChat)
	flags.StringVar(&l.storeURL, "store", "", "store to look in (default: the worker's)")
	flags.StringVar(&l.keys.Model, "model", "", "namespace to look in (default: the worker's)")
	flags.IntVar(&l.keys.PageTokens, "page-tokens", worker.DefaultPageTokens, "tokens a page, where no worker tells its own")
	flags.StringVar(&l.keys.KeyPrefix, "key-prefix", prefix.DefaultKeyPrefix, "what each key starts with")
	flags.BoolVar(&l.list, "keys", false, "list the pages' keys")
	flags.BoolVar(&l.json, "json", false, "print JSON")
	flags.Lookup("api-key").DefValue = "" // no secret in the help
	like(cmd, "worker", "http://127.0.0.1:8080")
	like(cmd, "store", settingExamples["store"])
	like(cmd, "model", "gguf-5a1c5bd99c4b@e3b0c44298fc1c149afbf4c8996fb924")
	return cmd
}

func (l *lookupCommand) run(ctx context.Context, stdin io.Reader, args []string) (*lookup.Report, error) {
	if l.server.URL == "" && l.as != asTokens {
		return nil, fmt.Errorf("%w: text is turned into tokens by a worker: name one, as in --worker http://127.0.0.1:8080, or give token ids with --as tokens", errLookup)
	}
	if l.keys.PageTokens < 1 {
		return nil, fmt.Errorf("%w; as in --page-tokens %d", prefix.ErrPageTokens, worker.DefaultPageTokens)
	}
	why, err := l.where(ctx, len(args) == 2)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		args = []string{"-"}
	}
	var prompts []lookup.Prompt
	for _, name := range args {
		p, err := l.prompt(ctx, stdin, name)
		if err != nil {
			return nil, err
		}
		prompts = append(prompts, p)
	}
	var s store.Store
	if why == "" {
		if s, err = l.open(ctx); err != nil {
			return nil, err
		}
		defer s.Close() //nolint:errcheck // it was only read
	}
	asking, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	report, err := lookup.Prompts(asking, s, l.keys, prompts...)
	if err != nil {
		return nil, err
	}
	report.Store, report.NotAsked = l.storeURL, why
	if d := report.Difference; d != nil && !d.Same && l.server.URL != "" {
		l.tell(asking, d, prompts)
	}
	return report, nil
}

// where finds out the store and the namespace that were not given. Of two prompts
// something can be told without: then it returns why nothing is looked up.
func (l *lookupCommand) where(ctx context.Context, two bool) (why string, err error) {
	if l.server.URL != "" && (l.storeURL == "" || l.keys.Model == "") {
		asking, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		status, err := l.server.Status(asking)
		switch {
		case errors.Is(err, remote.ErrStock) && two:
			return "the worker is a llama-server without Ollamoon", nil
		case err != nil:
			return "", err
		case !status.Sharing:
			why = "the worker does not share prompts: " + status.Reason
		}
		if l.keys.Model == "" && status.PageTokens > 0 {
			l.keys.PageTokens = status.PageTokens
		}
		l.storeURL, l.keys.Model = or(l.storeURL, status.Store), or(l.keys.Model, status.Namespace)
	}
	switch {
	case why != "":
	case l.keys.Model == "":
		why = "no namespace is named; as in --model gguf-5a1c5bd99c4b@e3b0c44298fc1c149afbf4c8996fb924 (/ollamoon/status of a worker has it)"
	case l.storeURL == "":
		why = "no store is named; as in --store " + settingExamples["store"]
	case l.storeURL == open.None:
		why = "there is none"
	case strings.HasPrefix(l.storeURL, "memory:"):
		why = "it is in the worker's own memory, which nobody else can look into"
	}
	if why != "" && !two {
		return "", fmt.Errorf("%w: the store is not asked: %s", errLookup, why)
	}
	return why, nil
}

// prompt reads a prompt and has it turned into tokens.
func (l *lookupCommand) prompt(ctx context.Context, stdin io.Reader, name string) (lookup.Prompt, error) {
	p := lookup.Prompt{Name: name}
	in := stdin
	if name == "-" {
		p.Name = "standard input"
	} else {
		f, err := os.Open(name) //nolint:gosec // the user names the file
		if err != nil {
			return p, fmt.Errorf("reading a prompt: %w", err)
		}
		defer f.Close() //nolint:errcheck // read only
		in = f
	}
	var err error
	if l.as == asTokens {
		if p.Tokens, err = readTokens(in); err != nil {
			return p, fmt.Errorf("%s: %w", p.Name, err)
		}
		return p, nil
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return p, fmt.Errorf("reading %s: %w", p.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	text := string(data)
	if l.as == asChat {
		if !json.Valid(data) {
			return p, fmt.Errorf("%w: %s is not JSON; as in {\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}", errLookup, p.Name)
		}
		if text, err = l.server.ApplyTemplate(ctx, bytes.TrimSpace(data)); err != nil {
			return p, fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	if p.Tokens, err = l.server.Tokenize(ctx, text); err != nil {
		return p, fmt.Errorf("%s: %w", p.Name, err)
	}
	return p, nil
}

// open opens the store, if it is there.
func (l *lookupCommand) open(ctx context.Context) (store.Store, error) {
	if dir, ok, err := open.Folder(l.storeURL); ok && err == nil {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: the store's folder %s is not there yet", errLookup, dir)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	s, err := open.Store(ctx, l.storeURL, slog.New(slog.DiscardHandler))
	if errors.Is(err, file.ErrFolder) {
		return nil, fmt.Errorf("%w; look into another user's store as that user: sudo -u USER ollamoon lookup", err)
	}
	return s, err
}

// tell adds the texts where two prompts part. What the worker cannot tell is left
// out.
func (l *lookupCommand) tell(ctx context.Context, d *lookup.Difference, prompts []lookup.Prompt) {
	if text, err := l.server.Detokenize(ctx, prompts[0].Tokens[max(0, d.Token-before):d.Token]); err == nil {
		d.Before = &text
	}
	for i, id := range d.IDs {
		if id == nil {
			continue
		}
		if text, err := l.server.Detokenize(ctx, []int32{*id}); err == nil {
			d.Texts[i] = &text
		}
	}
}
