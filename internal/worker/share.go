package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// loadable is how many pages of a prompt may be loaded: something has to be
// left to compute.
func (s *sharer) loadable(tokens int) int {
	if s.Exact {
		return s.boundary(tokens) / s.pageTokens
	}
	return (tokens - 1) / s.pageTokens
}

// drop empties a slot before an exact answer: beyond the rows that are known to
// be sound, the engine may reuse generated ones, of which nothing is known.
func (w *Worker) drop(ctx context.Context, s *sharer, held *slot) {
	if !s.Exact || !held.unknown && len(held.tokens) == 0 {
		return
	}
	if err := w.config.Engine.Erase(ctx, held.id); err != nil {
		if ctx.Err() == nil {
			w.config.Logger.Warn("an answer may not be exact", "error", fmt.Errorf("emptying a slot: %w", err))
		}
		return
	}
	held.hold(nil, 0)
}

// A live tells what the engine reuses of a prompt without help: so many tokens
// surely, and so many perhaps.
type live struct{ surely, perhaps int }

// live returns what the engine has of a prompt in a slot and in its memory. With
// a sliding window it takes up a conversation where it ended, and elsewhere only
// if it has happened to keep the rows of the window there.
func (w *Worker) live(s *sharer, held *slot, tokens []int32) live {
	here := common(held.tokens, tokens)
	most := max(here, w.memory.longest(tokens))
	switch {
	case s.Window == 0:
		return live{most, most}
	case most < s.pageTokens: // a template's first words
		return live{}
	case here == len(held.tokens) && here > s.Window:
		return live{here, most}
	}
	return live{0, most}
}

// gain is how many tokens need not be computed when so many pages are loaded; 0
// when that is of no use.
func (s *sharer) gain(pages int, has live) int {
	tokens := pages * s.pageTokens
	// An engine reuses only what is longer than its window.
	if tokens <= s.Window || tokens <= has.perhaps-s.pageTokens {
		return 0
	}
	return max(0, tokens-has.surely)
}

// errNotWorth: what the store has is not worth loading.
var errNotWorth = errors.New("worker: not worth loading")

// load brings a slot as much of a prompt as the store has and is worth loading.
// It returns how many tokens the engine will reuse.
func (w *Worker) load(ctx context.Context, s *sharer, held *slot, tokens []int32, took *breakdown) (int, error) {
	has := w.live(s, held, tokens)
	pages := s.loadable(len(tokens))
	if !s.estimates.worth(pages, s.gain(pages, has)) {
		return has.perhaps, nil
	}
	begin := time.Now()
	into := &bringing{sharer: s, files: w.files.Load(), tokens: tokens, shape: s.Shape.On(held.id), worth: func(pages int) bool {
		return s.estimates.worth(pages, s.gain(pages, has))
	}}
	defer into.close(w.discard)
	before := took.lookup
	storeCtx, cancel := s.within(took.noting(ctx))
	match, err := s.cache.Stream(storeCtx, tokens, pages, s.window(), into)
	cancel()
	err = into.files.outcome(len(tokens), err)
	unwanted := errors.Is(err, errNotWorth) || errors.Is(err, errNoRoom)
	if err == nil || unwanted {
		took.asked += pages * s.pageTokens
	}
	loaded := time.Now()
	if into.to != nil {
		took.load += loaded.Sub(begin) - (took.lookup - before)
	}
	if unwanted {
		return has.perhaps, nil
	}
	if into.to != nil && match.Pages == 0 && ctx.Err() == nil && errors.Is(match.Stopped, context.DeadlineExceeded) {
		s.estimates.cut(loaded.Sub(into.began), into.abreast())
	}
	if s.gain(match.Pages, has) == 0 && down(match.Stopped) {
		err = match.Stopped
	}
	if err != nil || s.gain(match.Pages, has) == 0 {
		return has.perhaps, err
	}
	if err := w.keep(ctx, s, held, tokens[:match.Tokens]); err != nil {
		return has.perhaps, err
	}
	if err := w.restore(ctx, held, tokens[:match.Tokens], into); err != nil {
		return 0, err
	}
	took.restore += time.Since(loaded)
	took.store = match.Tokens
	s.estimates.loaded(time.Since(begin), match.Pages)
	return match.Tokens, nil
}

// restore lets the engine read the slot file of what was brought.
func (w *Worker) restore(ctx context.Context, held *slot, tokens []int32, into *bringing) error {
	if err := into.done(); err != nil {
		return err
	}
	held.forget()
	begin := time.Now()
	if err := w.config.Engine.Restore(ctx, held.id, into.to.name, len(tokens)); err != nil {
		return fmt.Errorf("restoring %d tokens: %w", len(tokens), err)
	}
	into.to.moved(time.Since(begin))
	held.hold(tokens, len(tokens))
	held.stored = len(tokens)
	return nil
}

// discard removes a slot file while the caller goes on: the system takes its time
// over a large one. Close waits for it.
func (w *Worker) discard(file *slotFile) {
	if !w.publishing() {
		file.remove()
		return
	}
	go func() {
		defer w.publishes.Done()
		file.remove()
	}()
}

// keep makes the engine put what a slot holds into its own memory of
// conversations, as it does itself when another conversation takes the slot,
// unless what is to be restored has it all. A restore would lose it.
//
// Where slots share one cache the engine clears the idle ones when a request begins.
// What is restored behind their cells before that has its next rows in front of it,
// in the cells that have become free: in another order, rows have other last bits
// and are not published. So they are to be cleared first in any case.
func (w *Worker) keep(ctx context.Context, s *sharer, held *slot, restored []int32) error {
	n := len(held.tokens)
	if !held.unknown && common(held.tokens, restored) == n && !w.oneCache(s) {
		return nil
	}
	other := int32(0)
	if n > 0 && held.tokens[0] == other {
		other++
	}
	known := *held
	held.forget() // and so it stays when the call breaks off
	if _, err := w.config.Engine.Prefill(ctx, held.id, []int32{other}); err != nil {
		return fmt.Errorf("keeping a conversation: %w", err)
	}
	w.memory.put(known.tokens, known.sound)
	return nil
}

// oneCache reports whether several slots share one cache.
func (w *Worker) oneCache(s *sharer) bool {
	return w.config.Slots > 1 && s.Shape.Sections[0].Streams <= 1
}
