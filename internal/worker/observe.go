package worker

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"ollamoon/connector"
	"ollamoon/store"
	"ollamoon/store/breaker"
)

// An Observer is told what becomes of completions, once of each. Its methods are
// called by several goroutines at once, and should not take long.
type Observer interface {
	// Completed: a completion is over.
	Completed(Completion)
	// Saved: the engine has saved a slot whose pages are to be published, or failed
	// to.
	Saved(took time.Duration, err error)
	// Published: a saved slot's pages have been cut and put into the store, or could
	// not be.
	Published(took time.Duration, err error)
}

// A Completion is what became of one request.
type Completion struct {
	Endpoint string // one of Endpoints
	Outcome  Outcome
	// Tokens are the prompt's by source, when the engine said how many there are.
	Tokens Tokens
	// LookedUp is for how many tokens the store was asked, Hit how many of them came
	// from it.
	LookedUp, Hit int
	// Lookup is the time of telling the prompt's tokens and of asking which pages
	// there are, Load that of reading and checking pages and writing a slot file of
	// them, Restore that of bringing it into a slot; 0 stands for what did not take
	// place.
	Lookup, Load, Restore time.Duration
}

// Tokens of a prompt by where they came from; they add up to the prompt.
type Tokens struct {
	Slot     int // rows that the slot had
	Memory   int // rows that the engine brought back from its memory of conversations
	Store    int // rows loaded from the store
	Computed int // by the engine, for the request or in steps before it
}

// An Outcome says whether a completion's prompt was shared, or why not.
type Outcome string

// The outcomes. A prompt that is not shared passes through to the engine.
const (
	Shared        Outcome = "shared"         // its pages were looked for, or it is on a slot that has them
	NothingShared Outcome = "nothing_shared" // at that time nothing was shared at all
	OtherEndpoint Outcome = "endpoint"       // this endpoint's prompts are not predicted
	Malformed     Outcome = "malformed"      // the body is no JSON
	ByRequest     Outcome = "by_request"     // it has cache_prompt false, adapters or media of its own
	Several       Outcome = "several"        // it asks for several answers
	Unpredictable Outcome = "unpredictable"  // several prompts in one, or media in a message
	Short         Outcome = "short"          // its prompt has no whole page before its last token
	Long          Outcome = "long"           // its prompt does not fit into a slot
	NotPredicted  Outcome = "not_predicted"  // the engine failed to tell its tokens
	Gone          Outcome = "gone"           // the client left before a slot was free
)

// Outcomes are all of them.
func Outcomes() []Outcome {
	return []Outcome{
		Shared, NothingShared, OtherEndpoint, Malformed, ByRequest, Several, Unpredictable, Short, Long, NotPredicted, Gone,
	}
}

// Endpoints are the paths of completions, in order.
func Endpoints() []string {
	paths := make([]string, 0, len(predictions))
	for path := range predictions {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}

// Endpoint returns which of Endpoints, below a prefix of all paths, a request is
// for, if it is for one.
func Endpoint(r *http.Request, prefix string) (endpoint string, ok bool) {
	endpoint, ok = strings.CutPrefix(r.URL.Path, prefix)
	if ok && r.Method == http.MethodPost {
		_, ok = predictions[endpoint]
		return endpoint, ok
	}
	return "", false
}

// unobserved is the observer of a worker that has none.
type unobserved struct{}

func (unobserved) Completed(Completion)           {}
func (unobserved) Saved(time.Duration, error)     {}
func (unobserved) Published(time.Duration, error) {}

// down reports whether an error says that the store is down or too slow.
func down(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// failed logs what failed, quietly when the store was not asked at all, or there is
// no room: that has been said.
func (w *Worker) failed(ctx context.Context, what string, err error, args ...any) {
	level := slog.LevelWarn
	if errors.Is(err, breaker.ErrOpen) || errors.Is(err, errNoRoom) {
		level = slog.LevelDebug
	}
	w.config.Logger.Log(ctx, level, what, append(args, "error", err)...)
}

// published logs what became of pages: those that failed, but of a store that takes
// none, since it is full or read-only, only that it begins, and that it ends.
func (w *Worker) published(ctx context.Context, stored int, err error, args ...any) {
	switch {
	case errors.Is(err, store.ErrFull), errors.Is(err, store.ErrReadOnly):
		level := slog.LevelDebug
		if w.refused.CompareAndSwap(false, true) {
			level = slog.LevelWarn
		}
		w.config.Logger.Log(ctx, level, "the store takes no pages; prompts are served all the same", append(args, "error", err)...)
	case err != nil:
		w.failed(ctx, "pages were not published", err, args...)
	case stored > 0 && w.refused.CompareAndSwap(true, false):
		w.config.Logger.Info("the store takes pages again")
	}
}

// plus returns the sum of counts.
func plus(a, b connector.Stats) connector.Stats {
	a.PagesLookedUp += b.PagesLookedUp
	a.PagesHit += b.PagesHit
	a.BytesLoaded += b.BytesLoaded
	a.PagesPublished += b.PagesPublished
	a.BytesPublished += b.BytesPublished
	a.PagesDiscarded += b.PagesDiscarded
	a.DiscardFailures += b.DiscardFailures
	rejected := map[string]int64{}
	for _, counts := range []map[string]int64{a.Rejected, b.Rejected} {
		for reason, n := range counts {
			rejected[reason] += n
		}
	}
	if a.Rejected = nil; len(rejected) > 0 {
		a.Rejected = rejected
	}
	return a
}

// sources returns a prompt's tokens by source, of which the engine says that so
// many were cached and so many computed, steps among the former.
func (b *breakdown) sources(cached, computed, steps int) Tokens {
	steps = min(steps, cached)
	t := Tokens{Computed: computed + steps, Store: min(b.store, cached-steps)}
	rest := cached - steps - t.Store
	if b.store == 0 && b.memory > b.slot && rest > b.slot {
		t.Memory = rest
	} else {
		t.Slot = rest // with what was generated there
	}
	return t
}
