package prefill

import (
	"errors"
	"fmt"
	"time"
)

// Path is where a prefill worker is asked, below the prefix of its paths.
const Path = "/ollamoon/prefill"

// Version is that of what is said between the two sides.
const Version = 1

var (
	// ErrMismatch is wrapped when the two sides name pages in different ways.
	ErrMismatch = errors.New("prefill: the other side shares other pages")
	// ErrNobody is wrapped when no member of a pool can be asked.
	ErrNobody = errors.New("prefill: nobody to ask")
	// ErrNotWorth is returned when computing here is expected to be done sooner.
	ErrNotWorth = errors.New("prefill: not worth asking")
	// ErrSlow is wrapped when a member says nothing for too long, or takes longer
	// than computing here would.
	ErrSlow = errors.New("prefill: too slow")
	// ErrFailed is wrapped when a member says that it could not do it.
	ErrFailed = errors.New("prefill: failed")
)

// An Identity is what both sides have to agree on.
type Identity struct {
	Version    int    `json:"version"`
	Namespace  string `json:"namespace"` // short, as in keys
	Words      string `json:"words"`     // the namespace in words
	PageTokens int    `json:"page_tokens"`
	Common     string `json:"common"` // a digest of what tenants have in common
}

// Matches returns an error that wraps ErrMismatch and says what differs.
func (i Identity) Matches(other Identity) error {
	switch {
	case i.Version != other.Version:
		return fmt.Errorf("%w: version %d here, %d there", ErrMismatch, i.Version, other.Version)
	case i.PageTokens != other.PageTokens:
		return fmt.Errorf("%w: pages of %d tokens here, of %d there", ErrMismatch, i.PageTokens, other.PageTokens)
	case i.Common != other.Common:
		return fmt.Errorf("%w: other beginnings of prompts are declared common to tenants", ErrMismatch)
	case i.Namespace != other.Namespace:
		return fmt.Errorf("%w: here %s (%s), there %s (%s)", ErrMismatch, i.Namespace, i.Words, other.Namespace, other.Words)
	}
	return nil
}

// Info is what a prefill worker says of itself.
type Info struct {
	Identity
	// Outstanding is how many tokens it has been asked for and has not computed.
	Outstanding int `json:"outstanding_tokens"`
	// TokenMS is what a token takes it, in milliseconds; 0 is not known yet.
	TokenMS float64 `json:"token_ms"`
}

// expected is how long a worker with so much to do takes for so many tokens
// more; 0 is not known.
func (i Info) expected(tokens int) time.Duration {
	return time.Duration(float64(i.Outstanding+tokens) * i.TokenMS * float64(time.Millisecond))
}

// An ask is a prompt whose pages are wanted.
type ask struct {
	Identity
	Tenant string  `json:"tenant,omitempty"`
	Tokens []int32 `json:"tokens"`
}

// A line is one of an answer: now and then, and after each step, how many tokens
// of the prompt are published; the last one has Done or Error.
type line struct {
	Published int    `json:"published"`
	Done      bool   `json:"done,omitempty"`
	Error     string `json:"error,omitempty"`
}
