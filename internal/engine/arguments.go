package engine

import (
	"bufio"
	"fmt"
	"os"
	"slices"
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
// place or shares its cache. Names and variables are those of llama.cpp's
// common/arg.cpp.
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
	optParallel  = option{names: []string{"-np", "--parallel"}, variable: "LLAMA_ARG_N_PARALLEL"}
	optKeyType   = option{names: []string{"-ctk", "--cache-type-k"}, variable: "LLAMA_ARG_CACHE_TYPE_K"}
	optValueType = option{names: []string{"-ctv", "--cache-type-v"}, variable: "LLAMA_ARG_CACHE_TYPE_V"}
	optUBatch    = option{names: []string{"-ub", "--ubatch-size"}, variable: "LLAMA_ARG_UBATCH"}
)

// value returns what an option was given: the last on the command line, or else
// the environment's.
func (a Arguments) value(o option) (string, bool) {
	for i := len(a.Args) - 2; i >= 0; i-- {
		if slices.Contains(o.names, a.Args[i]) {
			return a.Args[i+1], true
		}
	}
	for _, entry := range a.Env {
		if v, ok := strings.CutPrefix(entry, o.variable+"="); ok && v != "" {
			return v, true
		}
	}
	return "", false
}

// has reports whether one of the names stands on the command line.
func (a Arguments) has(names ...string) bool {
	return slices.ContainsFunc(a.Args, func(arg string) bool { return slices.Contains(names, arg) })
}

// without returns the arguments with neither the options nor their variables.
func (a Arguments) without(options ...option) Arguments {
	var out Arguments
	for i := 0; i < len(a.Args); i++ {
		o := slices.IndexFunc(options, func(o option) bool { return slices.Contains(o.names, a.Args[i]) })
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

// with returns the arguments with more on the command line.
func (a Arguments) with(args ...string) Arguments {
	return Arguments{Args: append(slices.Clone(a.Args), args...), Env: a.Env}
}

// Passthrough reports whether this run of llama-server has nothing that could
// be shared, and why: it prints something and ends, serves no model or several,
// or computes embeddings. Such a run is the real binary's alone.
func (a Arguments) Passthrough() (reason string, yes bool) {
	for _, r := range []struct {
		reason string
		names  []string
	}{
		{"prints and ends", []string{"-h", "--help", "--usage", "--version", "-cl", "--cache-list", "--completion-bash", "--list-devices"}},
		{"embeddings only", []string{"--embedding", "--embeddings"}},
		{"reranking", []string{"--rerank", "--reranking"}},
	} {
		if a.has(r.names...) {
			return r.reason, true
		}
	}
	for variable, reason := range map[string]string{"LLAMA_ARG_EMBEDDINGS": "embeddings only", "LLAMA_ARG_RERANKING": "reranking"} {
		if v, ok := a.value(option{variable: variable}); ok && v != "0" && v != "false" {
			return reason, true
		}
	}
	if a.has("-hf", "-hfr", "--hf-repo", "-mu", "--model-url", "-dr", "--docker-repo") {
		return "", false
	}
	for _, variable := range []string{"LLAMA_ARG_HF_REPO", "LLAMA_ARG_MODEL_URL", "LLAMA_ARG_DOCKER_REPO"} {
		if _, ok := a.value(option{variable: variable}); ok {
			return "", false
		}
	}
	if _, ok := a.value(optModel); !ok {
		return "no model is named", true
	}
	return "", false
}

// A Listener is where and how a llama-server is asked to serve.
type Listener struct {
	Host, Port      string // a Host that ends in ".sock" is a socket's path
	ReusePort       bool
	Prefix          string
	TLSKey, TLSCert string
	APIKeys         []string
}

// Listener returns where and how these arguments ask to be served. An error
// says which file cannot be read.
func (a Arguments) Listener() (Listener, error) {
	l := Listener{Host: "127.0.0.1", Port: "8080", ReusePort: a.has(optReusePort.names...)}
	for _, f := range []struct {
		option
		to *string
	}{{optHost, &l.Host}, {optPort, &l.Port}, {optPrefix, &l.Prefix}, {optTLSKey, &l.TLSKey}, {optTLSCert, &l.TLSCert}} {
		if v, ok := a.value(f.option); ok {
			*f.to = v
		}
	}
	if v, ok := a.value(optAPIKey); ok {
		for key := range strings.SplitSeq(v, ",") {
			if key = strings.TrimSpace(key); key != "" {
				l.APIKeys = append(l.APIKeys, key)
			}
		}
	}
	if path, ok := a.value(optKeyFile); ok {
		file, err := os.Open(path) //nolint:gosec // the user names the file
		if err != nil {
			return Listener{}, fmt.Errorf("reading API keys: %w", err)
		}
		defer file.Close() //nolint:errcheck // read only
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
				l.APIKeys = append(l.APIKeys, line)
			}
		}
		if err := lines.Err(); err != nil {
			return Listener{}, fmt.Errorf("reading API keys: %w", err)
		}
	}
	return l, nil
}

// Behind returns the arguments for the real binary behind a stand-in: it
// listens on a socket and saves slots into a folder, both the stand-in's.
func (a Arguments) Behind(socket, slots string) Arguments {
	b := a.without(optHost, optPort, optReusePort, optTLSKey, optTLSCert, optSlotPath)
	return b.with("--host", socket, "--slot-save-path", slots)
}
