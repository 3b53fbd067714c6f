package engine

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Arguments are the command line and the environment of a llama-server, as its
// user gave them. What is not understood here is passed on as it is.
type Arguments struct {
	Args []string
	Env  []string
}

// An option of llama-server: its names on the command line, and its variable.
type option struct {
	names    []string
	variable string
	bare     bool // takes no value
}

// The options that a stand-in has to know, since it serves in the engine's
// place. Names and variables are those of llama.cpp's common/arg.cpp.
var (
	optHost      = option{names: []string{"--host"}, variable: "LLAMA_ARG_HOST"}
	optPort      = option{names: []string{"--port"}, variable: "LLAMA_ARG_PORT"}
	optPrefix    = option{names: []string{"--api-prefix"}, variable: "LLAMA_ARG_API_PREFIX"}
	optAPIKey    = option{names: []string{"--api-key"}, variable: "LLAMA_API_KEY"}
	optKeyFile   = option{names: []string{"--api-key-file"}, variable: "LLAMA_ARG_API_KEY_FILE"}
	optTLSKey    = option{names: []string{"--ssl-key-file"}, variable: "LLAMA_ARG_SSL_KEY_FILE"}
	optTLSCert   = option{names: []string{"--ssl-cert-file"}, variable: "LLAMA_ARG_SSL_CERT_FILE"}
	optReusePort = option{names: []string{"--reuse-port"}, variable: "LLAMA_ARG_REUSE_PORT", bare: true}
	optModel     = option{names: []string{"-m", "--model"}, variable: "LLAMA_ARG_MODEL"}
	optSlotPath  = option{names: []string{"--slot-save-path"}, variable: "LLAMA_ARG_SLOT_SAVE_PATH"}
	optBatch     = option{names: []string{"-b", "--batch-size"}, variable: "LLAMA_ARG_BATCH"}
	optCacheRAM  = option{names: []string{"-cram", "--cache-ram"}, variable: "LLAMA_ARG_CACHE_RAM"}
	optSWAFull   = option{names: []string{"--swa-full"}, variable: "LLAMA_ARG_SWA_FULL", bare: true}
	optUBatch    = option{names: []string{"-ub", "--ubatch-size"}, variable: "LLAMA_ARG_UBATCH"}

	optEmbedding = option{names: []string{"--embedding", "--embeddings"}, variable: "LLAMA_ARG_EMBEDDINGS", bare: true}
	optReranking = option{names: []string{"--rerank", "--reranking"}, variable: "LLAMA_ARG_RERANKING", bare: true}
	// Of a model that is fetched.
	optFetched = []option{
		{names: []string{"-hf", "-hfr", "--hf-repo"}, variable: "LLAMA_ARG_HF_REPO"},
		{names: []string{"-mu", "--model-url"}, variable: "LLAMA_ARG_MODEL_URL"},
		{names: []string{"-dr", "--docker-repo"}, variable: "LLAMA_ARG_DOCKER_REPO"},
	}
	optPrinting = option{bare: true, names: []string{
		"-h", "--help", "--usage", "--version", "--license", "-cl", "--cache-list", "--completion-bash", "--list-devices",
	}}
)

// canonical is an argument as llama-server takes it: in long names it does not
// tell "_" from "-".
func canonical(arg string) string {
	if strings.HasPrefix(arg, "--") {
		return strings.ReplaceAll(arg, "_", "-")
	}
	return arg
}

func (o option) named(arg string) bool { return slices.Contains(o.names, canonical(arg)) }

// values returns all that an option was given on the command line, in order, or
// else what the environment gives it.
func (a Arguments) values(o option) []string {
	var given []string
	for i := 0; i+1 < len(a.Args); i++ {
		if o.named(a.Args[i]) {
			i++
			given = append(given, a.Args[i])
		}
	}
	if v, ok := a.variable(o.variable); ok && given == nil {
		given = []string{v}
	}
	return given
}

// value returns what an option was given last.
func (a Arguments) value(o option) (string, bool) {
	given := a.values(o)
	if len(given) == 0 {
		return "", false
	}
	return given[len(given)-1], true
}

// has reports whether an option without a value is set.
func (a Arguments) has(o option) bool {
	if slices.ContainsFunc(a.Args, o.named) {
		return true
	}
	v, ok := a.variable(o.variable)
	return ok && slices.Contains([]string{"1", "on", "true", "enabled"}, v)
}

func (a Arguments) variable(name string) (string, bool) {
	for _, entry := range a.Env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok && v != "" {
			return v, true
		}
	}
	return "", false
}

// without returns the arguments with neither the options nor their variables.
func (a Arguments) without(options ...option) Arguments {
	var out Arguments
	for i := 0; i < len(a.Args); i++ {
		o := slices.IndexFunc(options, func(o option) bool { return o.named(a.Args[i]) })
		if o < 0 {
			out.Args = append(out.Args, a.Args[i])
			continue
		}
		if !options[o].bare {
			i++
		}
	}
	for _, entry := range a.Env {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.ContainsFunc(options, func(o option) bool { return o.variable == name }) {
			out.Env = append(out.Env, entry)
		}
	}
	return out
}

// With returns the arguments with more on the command line.
func (a Arguments) With(args ...string) Arguments {
	return Arguments{Args: append(slices.Clone(a.Args), args...), Env: a.Env}
}

// Passthrough reports whether this run of llama-server has nothing that could
// be shared, and why: it prints something and ends, serves no model or several,
// or computes embeddings. Such a run is the real binary's alone.
func (a Arguments) Passthrough() (reason string, yes bool) {
	switch {
	case a.has(optPrinting):
		return "it prints something and ends", true
	case a.has(optEmbedding):
		return "it computes embeddings only", true
	case a.has(optReranking):
		return "it ranks only", true
	}
	if mode, ok := a.variable("AIP_MODE"); ok && mode == "PREDICTION" {
		return "Vertex AI names its port and paths", true
	}
	for _, o := range append([]option{optModel}, optFetched...) {
		if _, ok := a.value(o); ok {
			return "", false
		}
	}
	return "no model is named", true
}

// Model returns the file of the model's weights, if one is named.
func (a Arguments) Model() (path string, ok bool) {
	for _, o := range optFetched {
		if _, ok := a.value(o); ok {
			return "", false
		}
	}
	return a.value(optModel)
}

// SlotPath returns the folder that the user wants slots to be saved into, if
// they want that.
func (a Arguments) SlotPath() (path string, ok bool) { return a.value(optSlotPath) }

// The engine's own defaults.
const (
	defaultBatch  = 2048
	defaultUBatch = 512
)

// UBatch returns the most tokens that the engine computes together.
func (a Arguments) UBatch() int {
	number := func(o option, otherwise int) int {
		if v, ok := a.value(o); ok {
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				return n
			}
		}
		return otherwise
	}
	return min(number(optUBatch, defaultUBatch), number(optBatch, defaultBatch))
}

// WholeWindow reports whether layers with a sliding window keep all of their
// rows.
func (a Arguments) WholeWindow() bool { return a.has(optSWAFull) }

// Remembers returns how many bytes of conversations the engine keeps besides its
// slots.
func (a Arguments) Remembers() int64 {
	const defaultMiB = 8192
	v, _ := a.value(optCacheRAM)
	mib, err := strconv.ParseInt(v, 10, 32)
	switch {
	case err != nil:
		mib = defaultMiB
	case mib < 0: // no limit
		mib = math.MaxInt32
	}
	return mib << 20
}

// Behind returns the arguments for the real binary behind a stand-in: it
// listens on a socket and saves slots into a folder, both the stand-in's.
func (a Arguments) Behind(socket, slots string) Arguments {
	b := a.without(optHost, optPort, optReusePort, optTLSKey, optTLSCert, optSlotPath)
	return b.With("--host", socket, "--slot-save-path", slots)
}
