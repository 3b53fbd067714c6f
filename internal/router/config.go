package router

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"ollamoon/internal/router/policy"
	"ollamoon/internal/trust"
)

// A Surface is whose endpoints are served.
type Surface string

// The surfaces.
const (
	Llama  Surface = "llama"
	Ollama Surface = "ollama"
)

var (
	// ErrConfig is wrapped by the error for settings that make no router.
	ErrConfig = errors.New("router: bad settings")
	// ErrMismatch: workers cannot share what they are said to share, or one is not
	// known to be ours.
	ErrMismatch = errors.New("router: workers do not fit together")
)

// A Spec names a worker and says where it is.
type Spec struct {
	ID  string
	URL *url.URL
}

// ParseSpec reads [NAME=]URL. The name is host:port if it is not given.
func ParseSpec(s string) (Spec, error) {
	id, address, named := strings.Cut(s, "=")
	if !named || strings.Contains(id, "/") {
		id, address = "", s
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/")+u.RawQuery != "" {
		return Spec{}, fmt.Errorf("%w: worker %q; it is [NAME=]http://HOST:PORT", ErrConfig, s)
	}
	if id == "" {
		id = u.Host
	}
	return Spec{ID: id, URL: &url.URL{Scheme: u.Scheme, Host: u.Host}}, nil
}

// Config says what a Router works with. NewConfig has the defaults.
type Config struct {
	Surface Surface
	Workers []Spec
	Policy  string // its name
	// Slots is how many requests run at the same time on a worker that does not say
	// how many it has.
	Slots int

	// Queue is how many requests wait at most, QueueWait how long.
	Queue     int
	QueueWait time.Duration
	// MaxBody bounds a request's body, in bytes, and BodyWait the time in which it
	// must come.
	MaxBody  int64
	BodyWait time.Duration
	// Stall is how long a client may take nothing of what is ready for it.
	Stall time.Duration

	// Workers are asked for their health every Interval. One that does not answer
	// within Timeout, Fall times in a row, is taken out.
	Interval, Timeout time.Duration
	Fall              int

	// Keys are those of the public surface; nil is no keys.
	Keys *Keys
	// AdminToken opens what is about the router itself. Without it workers cannot be
	// added or removed and, where there are keys, its status cannot be seen.
	AdminToken string
	// Secret is what the workers have too; nil is none.
	Secret trust.Secret
	// WorkerKey is an API key that the workers ask for.
	WorkerKey string

	Logger *slog.Logger
}

// NewConfig returns the defaults.
func NewConfig(s Surface, workers ...Spec) Config {
	return Config{
		Surface: s, Workers: workers, Policy: policy.LeastTime{}.Name(), Slots: 4,
		Queue: 256, QueueWait: 5 * time.Minute,
		MaxBody: 64 << 20, BodyWait: time.Minute, Stall: time.Minute,
		Interval: 2 * time.Second, Timeout: 5 * time.Second, Fall: 3,
		Logger: slog.New(slog.DiscardHandler),
	}
}

func (c Config) validate() error {
	if c.Surface != Llama && c.Surface != Ollama {
		return fmt.Errorf("%w: no surface %q; there are %s and %s", ErrConfig, c.Surface, Llama, Ollama)
	}
	if _, err := policy.ByName(c.Policy, policy.DefaultCosts); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Slots < 1 || c.Queue < 0 || c.MaxBody < 1 || c.Fall < 1 {
		return fmt.Errorf("%w: slots, the size of bodies and the failures of health checks are positive, the queue is not negative", ErrConfig)
	}
	for _, d := range []time.Duration{c.QueueWait, c.BodyWait, c.Stall, c.Interval, c.Timeout} {
		if d <= 0 {
			return fmt.Errorf("%w: a time of %v; times are positive", ErrConfig, d)
		}
	}
	seen := map[string]bool{}
	for _, w := range c.Workers {
		if seen[w.ID] {
			return fmt.Errorf("%w: two workers named %s; give one a name: NAME=%s", ErrConfig, w.ID, w.URL)
		}
		seen[w.ID] = true
	}
	return c.validateTenants()
}

// validateTenants refuses what would let tenants see each other's pages.
func (c Config) validateTenants() error {
	switch {
	case c.Surface == Ollama && c.Secret != nil:
		return fmt.Errorf("%w: a secret with Ollama servers, which cannot be told of tenants", ErrConfig)
	case c.Surface == Llama && c.Keys.tenants() > 1 && c.Secret == nil:
		return fmt.Errorf("%w: API keys of %d tenants and no secret, by which workers keep the tenants' pages apart; "+
			"give router and workers a secret, or all keys the same name", ErrConfig, c.Keys.tenants())
	}
	return nil
}
