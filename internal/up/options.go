package up

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"ollamoon/store/open"
)

// Mooncake names the store that is started with the cluster.
const Mooncake = "mooncake"

// Counted is the number of workers that lets the number of threads decide.
const Counted = -1

// ErrOptions is wrapped by the error for options that make no cluster.
var ErrOptions = errors.New("up: this makes no cluster")

// Options say what to run.
type Options struct {
	Program string // this one, whose commands the children are
	Binary  string // the real llama-server
	Model   string // a GGUF file

	// Prefill and Decode are numbers of workers. Counted is one prefill worker and
	// two decode workers, or fewer where there are fewer threads.
	Prefill, Decode int
	Threads         int // of all engines together
	Context         int // tokens of each engine's context

	Store        string // Mooncake, or the URL of a store
	Programs     string // folder of Mooncake's programs; empty: as installed
	SegmentBytes int64  // memory of the store, with Mooncake
	// SealKeyFile is the key of pages in a store that is there already. Pages in one
	// that is started here have a key of their own.
	SealKeyFile string

	Host    string // of the router
	Port    int    // of the router; 0: a free one
	APIKeys string // file of keys; empty: no key is needed

	Args []string // more arguments for every llama-server

	LogDir  string // empty: in the run's folder
	Verbose bool   // what children print is shown too
}

// The number of workers where there are enough threads.
const (
	usualPrefill = 1
	usualDecode  = 2
)

// counts returns how many workers there are of each kind.
func (o Options) counts() (prefill, decode int) {
	prefill, decode = o.Prefill, o.Decode
	if prefill == Counted {
		prefill = min(usualPrefill, max(0, o.Threads-max(1, decode)))
	}
	if decode == Counted {
		decode = max(1, min(usualDecode, o.Threads-prefill))
	}
	return prefill, decode
}

// own are arguments of llama-server and settings of the stand-in that the cluster
// gives itself, and the options that say them, if there are any.
var own = map[string]string{
	"-m": "--model", "--model": "--model", "-mu": "--model", "--model-url": "--model", "-hf": "--model", "-hfr": "--model", "--hf-repo": "--model",
	"-c": "--ctx", "--ctx-size": "--ctx",
	"-t": "--threads", "--threads": "--threads", "-tb": "--threads", "--threads-batch": "--threads",
	"--host": "--host", "--port": "--port", "--reuse-port": "", "--api-prefix": "",
	"--api-key": "--api-keys", "--api-key-file": "--api-keys", "--ssl-key-file": "", "--ssl-cert-file": "",
	"--ollamoon-binary": "--llama-server", "--ollamoon-store": "--store", "--ollamoon-seal-key-file": "--seal-key-file",
	"--ollamoon-role": "", "--ollamoon-prefill": "", "--ollamoon-secret-file": "", "--ollamoon-tenants": "",
}

// check returns an error that wraps ErrOptions for what cannot be, and says what
// can.
func (o Options) check() error {
	prefill, decode := o.counts()
	switch {
	case decode < 1:
		return fmt.Errorf("%w: %d decode workers; --decode is 1 or more, since they answer", ErrOptions, decode)
	case prefill < 0:
		return fmt.Errorf("%w: %d prefill workers; --prefill is 0 or more", ErrOptions, prefill)
	case o.Threads < 1:
		return fmt.Errorf("%w: %d threads; --threads is 1 or more", ErrOptions, o.Threads)
	case o.Context < 0:
		return fmt.Errorf("%w: a context of %d tokens; --ctx is 0 (the model's own) or more", ErrOptions, o.Context)
	case o.Port < 0 || o.Port > 65535:
		return fmt.Errorf("%w: port %d; --port is one up to 65535, or 0 for a free one", ErrOptions, o.Port)
	case net.ParseIP(o.Host) == nil:
		return fmt.Errorf("%w: host %q; --host is an IP address of this machine, such as 127.0.0.1", ErrOptions, o.Host)
	}
	if info, err := os.Stat(o.Model); err != nil || info.IsDir() {
		return fmt.Errorf("%w: no model at %q; --model is a GGUF file", ErrOptions, o.Model)
	}
	for _, arg := range o.Args {
		name, _, _ := strings.Cut(arg, "=")
		if option, ok := own[name]; ok && option != "" {
			return fmt.Errorf("%w: %s after --; give %s before it", ErrOptions, name, option)
		} else if ok {
			return fmt.Errorf("%w: %s after --; workers have their own", ErrOptions, name)
		}
	}
	return o.checkStore()
}

func (o Options) checkStore() error {
	if o.Store == Mooncake {
		if o.SegmentBytes < leastSegment {
			return fmt.Errorf("%w: a store of %d bytes; --segment is 64MiB or more", ErrOptions, o.SegmentBytes)
		}
		if o.SealKeyFile != "" {
			return fmt.Errorf("%w: a key for a store that is started with the cluster and has one of its own; leave --seal-key-file out", ErrOptions)
		}
		return nil
	}
	if o.Store == open.None || strings.HasPrefix(o.Store, "memory:") {
		return fmt.Errorf("%w: workers share nothing by the store %q; --store is %s, file:FOLDER or mooncake://MASTER:PORT", ErrOptions, o.Store, Mooncake)
	}
	if err := open.Check(o.Store); err != nil {
		return fmt.Errorf("%w: --store: %w", ErrOptions, err)
	}
	return nil
}

// leastSegment is the least memory of a store.
const leastSegment = 64 << 20
