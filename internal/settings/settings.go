package settings

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ollamoon/connector"
	"ollamoon/internal/worker"
)

// Settings of a stand-in.
type Settings struct {
	Binary string         // the real llama-server; empty: looked for
	Store  string         // URL of the store, or "none"
	Role   connector.Role // what of sharing is done
	Exact  bool           // share only what is the same to the last bit
	// PageTokens is how many tokens a page has.
	PageTokens int
	Tenant     string // shares with nobody else
	// Tenants says who tells tenants of this engine apart, one of the words below.
	Tenants string
	// SharedPrefixes are files of beginnings of prompts that these tenants share.
	SharedPrefixes []string
	SealKeyFile    string        // file of the key that seals pages; empty: a checksum does
	Deadline       time.Duration // of each call to the store
	Slots          string        // folder for slot files; empty: chosen
	Prefill        []string      // URLs of prefill workers that are asked
	SecretFile     string        // file of the secret that prefill workers and routers have in common with this one
	RequestLog     string        // file that gets a line for each prompt that is answered; empty: none
	LogLevel       slog.Level
	LogFormat      string // "text" or "json"
}

// Who tells the tenants of one engine apart.
const (
	OneTenant     = "one"    // nobody: all requests are one tenant's
	KeyTenants    = "keys"   // llama-server's API keys, of which each is a tenant
	RouterTenants = "router" // a router that has the secret; others are refused
)

// What starts the names of flags and of variables.
const (
	flagPrefix     = "--ollamoon-"
	variablePrefix = "OLLAMOON_"
)

// The flags that are no settings.
const (
	configFlag = "config"
	helpFlag   = "help"
)

// Flags returns the table of settings with their names in a file, whose values are
// s's and begin as the defaults.
func (s *Settings) Flags() *pflag.FlagSet { return s.flags() }

// Words returns the words that a setting can have, or nothing where it is no
// matter of words.
func Words(setting string) []string {
	switch setting {
	case "role":
		return []string{connector.Mixed.String(), connector.Prefill.String(), connector.Decode.String()}
	case "tenants":
		return tenants
	case "log-format":
		return logFormats
	case "log-level":
		return []string{"DEBUG", "INFO", "WARN", "ERROR"}
	}
	return nil
}

var tenants = []string{OneTenant, KeyTenants, RouterTenants}

var logFormats = []string{"text", "json"}

// flags returns the table of settings, whose values are s's.
func (s *Settings) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("ollamoon", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&s.Binary, "binary", "", "the real llama-server\n(default: llama-server.real beside this program, or llama-server on PATH)")
	f.StringVar(&s.Store, "store", "file:", "where pages are kept: file:FOLDER, memory:, mooncake://MASTER:PORT?metadata=..., or none;\nfile: without a folder is one in the user's cache folder")
	f.Var(&roleValue{&s.Role}, "role", "what is done: mixed and prefill load and publish pages, decode only loads;\nprefill also computes prompts for workers that ask")
	f.BoolVar(&s.Exact, "exact", false, "share only between engines whose results are the same to the last bit")
	s.PageTokens = worker.DefaultPageTokens
	f.Var((*pageTokens)(&s.PageTokens), "page-tokens", "tokens a page, a multiple of 64 up to 4096: shorter prompts are not shared, and smaller pages are more objects in the store;\nonly engines with the same number share")
	f.StringVar(&s.Tenant, "tenant", "", "share with nobody but engines of the same tenant")
	f.Var(&choice{&s.Tenants, tenants}, "tenants", "whose requests are: one for all the same, keys for a tenant an API key of llama-server's,\nrouter for what a router with the secret says (others are refused); tenants share no pages")
	f.StringSliceVar(&s.SharedPrefixes, "shared-prefix", nil, "files of prompts' beginnings that tenants share all the same: text as the engine gets it,\nor a chat in JSON, such as {\"messages\": [{\"role\": \"system\", \"content\": \"...\"}]}")
	f.StringVar(&s.SealKeyFile, "seal-key-file", "", "file of 64 hexadecimal digits: the key of the MAC that proves pages\n(default: a checksum, which proves nothing to who can write to the store)")
	f.DurationVar(&s.Deadline, "deadline", 10*time.Second, "the longest that a call to the store may take")
	f.StringVar(&s.Slots, "slots", "", "folder for slot files, the user's own and closed to others\n(default: in shared memory if that has room, else in the folder for temporary files)")
	f.StringSliceVar(&s.Prefill, "prefill", nil, "prefill workers that compute long prompts, such as http://10.0.0.2:8080,http://10.0.0.3:8080;\nthey run with --ollamoon-role prefill, the same model and the same store")
	f.StringVar(&s.SecretFile, "secret-file", "", "file of a secret of 16 characters or more that this worker, prefill workers and routers have in common\n(default: whoever reaches a prefill worker's port may ask it)")
	f.StringVar(&s.RequestLog, "request-log", "", "file to which a line is appended for each prompt that is answered: its lengths and the keys of its pages, no text;\nollamoon simulate convert makes a trace of it (default: none)")
	f.TextVar(&s.LogLevel, "log-level", slog.LevelWarn, "least level of messages on standard error: DEBUG, INFO, WARN or ERROR")
	f.Var(&choice{&s.LogFormat, logFormats}, "log-format", "form of these messages: text or json")
	return f
}

// Usage lists the settings and their defaults.
func Usage() string {
	s := Settings{LogFormat: "text"}
	table := pflag.NewFlagSet("", pflag.ContinueOnError)
	table.SortFlags = false
	s.flags().VisitAll(func(f *pflag.Flag) {
		f.Name = strings.TrimPrefix(flagPrefix, "--") + f.Name
		table.AddFlag(f)
	})
	table.String("ollamoon-"+configFlag, "", "YAML file of settings\n(default: "+FileName+" beside a program of the name llama-server,\n"+strings.Join(files(""), " and ")+", if they are there)")
	table.Bool("ollamoon-"+helpFlag, false, "print this and end")
	return "Ollamoon stands in for llama-server, whose own arguments it takes as they are (--help).\n" +
		"Its own settings are flags, variables (OLLAMOON_STORE) or lines of a YAML file\n(store: none); a flag is stronger than a variable, a variable stronger than a file.\n\n" +
		table.FlagUsages()
}

type roleValue struct{ to *connector.Role }

func (v *roleValue) String() string { return v.to.String() }
func (v *roleValue) Type() string   { return "string" }

func (v *roleValue) Set(name string) error {
	role, err := connector.ParseRole(name)
	if err != nil {
		return err
	}
	*v.to = role
	return nil
}

// A pageTokens is a number of tokens that a page can have.
type pageTokens int

func (p *pageTokens) String() string { return strconv.Itoa(int(*p)) }
func (p *pageTokens) Type() string   { return "int" }

func (p *pageTokens) Set(number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("%q is no number of tokens", number)
	}
	if err := worker.CheckPageTokens(n); err != nil {
		return err
	}
	*p = pageTokens(n)
	return nil
}

// A choice is one of several words; the first is the default.
type choice struct {
	to    *string
	words []string
}

func (c *choice) Type() string { return "string" }

func (c *choice) String() string {
	if *c.to == "" {
		*c.to = c.words[0]
	}
	return *c.to
}

func (c *choice) Set(word string) error {
	for _, w := range c.words {
		if w == word {
			*c.to = word
			return nil
		}
	}
	return fmt.Errorf("no %q; use %s", word, strings.Join(c.words, " or "))
}
