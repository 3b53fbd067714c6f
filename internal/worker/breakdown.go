package worker

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"ollamoon/store"
)

// The headers of an answer to a prompt that is shared and of which something was
// there before it was computed.
const (
	// TokensHeader says how many tokens were there, and where: "slot=512",
	// "memory=512" or "store=1792". It is sent before the engine has looked: of what
	// a slot generated itself it says nothing.
	TokensHeader = "Ollamoon-Cached-Tokens" //nolint:gosec // tokens of a prompt, no credentials
	// TimingHeader says in milliseconds what that took, in the syntax of
	// Server-Timing: "lookup;dur=1.2, load;dur=12, restore;dur=15.5"; load and restore
	// are there when something came from the store.
	TimingHeader = "Ollamoon-Timing"
)

// A breakdown is where one request's tokens came from and its time went before
// it was forwarded. One goroutine works on it.
type breakdown struct {
	later   bool // its pages are published when the answer has ended
	outcome Outcome
	slot    int           // tokens whose rows the slot is known to have had
	memory  int           // tokens that the engine is taken to remember
	surely  int           // of either, what the engine reuses surely
	store   int           // tokens restored from the store
	asked   int           // tokens for which the store was asked
	tokens  Tokens        // as the engine says afterwards
	lookup  time.Duration // telling the prompt's tokens, and asking which pages are there
	load    time.Duration // reading pages, checking them, writing a slot file of them
	restore time.Duration // the engine reading that file, and remembering what its slot had
}

// had notes what there was of a prompt of so many tokens before anything was done
// for it: rows in the slot, what the engine is taken to remember, and how many of
// either it will reuse surely. The engine computes at least one token.
func (b *breakdown) had(slot, memory, surely, tokens int) {
	b.slot, b.memory, b.surely = slot, memory, max(0, min(surely, tokens-1))
}

// announce sets the headers, unless nothing was there before: such an answer is
// the engine's own.
func (b *breakdown) announce(h http.Header) {
	switch {
	case b.store > 0:
		h.Set(TokensHeader, fmt.Sprintf("store=%d", b.store))
		h.Set(TimingHeader, fmt.Sprintf("lookup;dur=%.3f, load;dur=%.3f, restore;dur=%.3f",
			milliseconds(b.lookup), milliseconds(b.load), milliseconds(b.restore)))
		return
	case b.surely == 0:
		return
	case b.surely > b.slot:
		h.Set(TokensHeader, fmt.Sprintf("memory=%d", b.surely))
	default:
		h.Set(TokensHeader, fmt.Sprintf("slot=%d", b.surely))
	}
	h.Set(TimingHeader, fmt.Sprintf("lookup;dur=%.3f", milliseconds(b.lookup)))
}

// completion is what an observer is told.
func (b *breakdown) completion(endpoint string) Completion {
	return Completion{
		Endpoint: endpoint, Outcome: b.outcome, Tokens: b.tokens, LookedUp: b.asked, Hit: b.store,
		Lookup: b.lookup, Load: b.load, Restore: b.restore,
	}
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
