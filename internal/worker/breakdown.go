package worker

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"ollamoon/store"
)

// The headers of an answer to a prompt of which something came from the store.
const (
	// TokensHeader says how many tokens came from where: "store=1792".
	TokensHeader = "Ollamoon-Cached-Tokens" //nolint:gosec // tokens of a prompt, no credentials
	// TimingHeader says in milliseconds what that took, in the syntax of
	// Server-Timing: "lookup;dur=1.2, load;dur=12, restore;dur=15.5".
	TimingHeader = "Ollamoon-Timing"
)

// A breakdown is where one request's tokens came from and its time went before
// it was forwarded. One goroutine works on it.
type breakdown struct {
	store   int           // tokens restored from the store
	lookup  time.Duration // telling the prompt's tokens, and asking which pages are there
	load    time.Duration // reading pages, and checking them
	restore time.Duration // from pages in memory to a slot of the engine
}

// announce sets the headers, unless nothing came from the store: such an answer
// is the engine's own.
func (b *breakdown) announce(h http.Header) {
	if b.store == 0 {
		return
	}
	h.Set(TokensHeader, fmt.Sprintf("store=%d", b.store))
	h.Set(TimingHeader, fmt.Sprintf("lookup;dur=%.3f, load;dur=%.3f, restore;dur=%.3f",
		milliseconds(b.lookup), milliseconds(b.load), milliseconds(b.restore)))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

type breakdownKey struct{}

// noting returns a context for the calls to the store on a request's way to the
// engine.
func (b *breakdown) noting(ctx context.Context) context.Context {
	return context.WithValue(ctx, breakdownKey{}, b)
}

// A timedStore notes how long lookups take, which are a part of a load's call.
type timedStore struct{ store.Store }

// BatchExist asks the store.
func (s timedStore) BatchExist(ctx context.Context, keys []string) ([]bool, error) {
	begin := time.Now()
	present, err := s.Store.BatchExist(ctx, keys)
	if b, ok := ctx.Value(breakdownKey{}).(*breakdown); ok {
		b.lookup += time.Since(begin)
	}
	return present, err
}
