package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"ollamoon/internal/engine"
	"ollamoon/slotfile"
)

// fileNumber names slot files, apart from those of other processes.
var fileNumber atomic.Int64

func slotFileName() string {
	return fmt.Sprintf("ollamoon-%d-%d", os.Getpid(), fileNumber.Add(1))
}

// loadable is how many pages of a prompt may be loaded: something has to be
// left to compute.
func (s *sharer) loadable(tokens int) int {
	if s.Exact {
		return boundary(tokens) / PageTokens
	}
	return (tokens - 1) / PageTokens
}

// drop empties a slot before an exact answer: beyond the rows that are known to
// be sound, the engine may reuse generated ones, of which nothing is known.
func (s *sharer) drop(ctx context.Context, e *engine.Client, held *slot) error {
	if !s.Exact || !held.unknown && len(held.tokens) == 0 {
		return nil
	}
	if err := e.Erase(ctx, held.id); err != nil {
		return fmt.Errorf("emptying a slot: %w", err)
	}
	held.hold(nil, 0)
	return nil
}

// errNotWorth: what the store has is not worth loading.
var errNotWorth = errors.New("worker: not worth loading")

// load brings a slot as much of a prompt as the store has and is worth loading.
// It returns how many tokens the engine will reuse.
func (w *Worker) load(ctx context.Context, s *sharer, held *slot, tokens []int32, took *breakdown) (int, error) {
	live := max(common(held.tokens, tokens), w.memory.longest(tokens))
	pages := s.loadable(len(tokens))
	if pages*PageTokens <= live || !s.estimates.worth(pages, pages*PageTokens-live) {
		return live, nil
	}
	begin := time.Now()
	var buffers [][]byte
	free := func() {}
	defer func() { free() }()
	before := took.lookup
	storeCtx, cancel := s.within(took.noting(ctx))
	match, err := s.connector.Load(storeCtx, tokens, pages, func(run int) ([][]byte, error) {
		if !s.estimates.worth(run, run*PageTokens-live) {
			return nil, errNotWorth
		}
		var err error
		buffers, free, err = s.buffers(run)
		return buffers, err
	})
	cancel()
	loaded := time.Now()
	took.load += loaded.Sub(begin) - (took.lookup - before)
	if errors.Is(err, errNotWorth) {
		return live, nil
	}
	if err != nil || match.Tokens <= live {
		return live, err
	}
	if err := w.keep(ctx, held, tokens[:match.Tokens]); err != nil {
		return live, err
	}
	payloads := make([][]byte, match.Pages)
	for i := range payloads {
		payloads[i] = buffers[i][:s.pageBytes]
	}
	if err := s.restore(ctx, w.config.Engine, held, tokens[:match.Tokens], payloads); err != nil {
		return 0, err
	}
	took.restore += time.Since(loaded)
	took.store = match.Tokens
	s.estimates.loaded(time.Since(begin), match.Pages)
	return match.Tokens, nil
}

// restore writes pages as a slot file and lets the engine read it.
func (s *sharer) restore(ctx context.Context, e *engine.Client, held *slot, tokens []int32, payloads [][]byte) error {
	name := slotFileName()
	path := filepath.Join(s.Folder, name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // a name of ours
	if err != nil {
		return fmt.Errorf("making a slot file: %w", err)
	}
	defer os.Remove(path) //nolint:errcheck // swept at the next start
	err = s.Shape.On(held.id).Write(file, tokens, PageTokens, []slotfile.Pages{{Payloads: payloads}})
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("making a slot file: %w", err)
	}
	held.forget()
	if err := e.Restore(ctx, held.id, name, len(tokens)); err != nil {
		return fmt.Errorf("restoring %d tokens: %w", len(tokens), err)
	}
	held.hold(tokens, len(tokens))
	return nil
}

// keep makes the engine put what a slot holds into its own memory of
// conversations, as it does itself when another conversation takes the slot,
// unless what is to be restored has it all. A restore would lose it.
func (w *Worker) keep(ctx context.Context, held *slot, restored []int32) error {
	n := len(held.tokens)
	if !held.unknown && common(held.tokens, restored) == n {
		return nil
	}
	other := int32(0)
	if n > 0 && held.tokens[0] == other {
		other++
	}
	if _, err := w.config.Engine.Prefill(ctx, held.id, []int32{other}); err != nil {
		return fmt.Errorf("keeping a conversation: %w", err)
	}
	w.memory.put(held.tokens, held.sound)
	held.forget()
	return nil
}

// boundary is where a step for publishing a prompt ends: the last page's end
// that leaves a batch to compute.
func boundary(tokens int) int {
	return max(0, tokens-minBatch) / PageTokens * PageTokens
}

// firstStep is how many tokens the first step of a prompt computes; each later
// one doubles it, so that all saves of a prompt copy at most about twice its
// final size.
const firstStep = 1024

// steps computes a prompt up to a page's end, publishing on the way; published
// counts what has not ended when steps returns. It returns how many tokens it
// computed, and in which time.
func (w *Worker) steps(ctx context.Context, held *slot, tokens []int32, published *sync.WaitGroup) (correction, error) {
	s := w.share.Load()
	end := boundary(len(tokens))
	var done correction
	at := common(held.tokens, tokens)
	for size := firstStep; at < end; size *= 2 {
		next := min(end, (at+size)/PageTokens*PageTokens)
		if end-next < PageTokens*2 {
			next = end // what is left is not worth a step of its own
		}
		timings, err := w.config.Engine.Prefill(ctx, held.id, tokens[:next])
		if err != nil {
			held.forget()
			return done, fmt.Errorf("computing a step: %w", err)
		}
		s.estimates.computed(time.Duration(timings.PromptMS*float64(time.Millisecond)), timings.PromptTokens)
		held.advance(tokens[:next], timings.CacheTokens, timings.PromptTokens, w.config.UBatch, true, &w.memory)
		done.tokens += timings.PromptTokens
		done.ms += timings.PromptMS
		if err := w.publish(ctx, held, timings.CacheTokens/PageTokens, published); err != nil {
			return done, err
		}
		at = next
	}
	return done, nil
}

// publish saves a slot and publishes the pages of its sound rows, from the given
// one on, the latter while the caller goes on and counted in published.
func (w *Worker) publish(ctx context.Context, held *slot, from int, published *sync.WaitGroup) error {
	pages := held.sound / PageTokens
	if pages <= from {
		return nil
	}
	s := w.share.Load()
	name := slotFileName()
	path := filepath.Join(s.Folder, name)
	if _, err := w.config.Engine.Save(ctx, held.id, name, len(held.tokens)); err != nil {
		_ = os.Remove(path) // it may not be there
		return fmt.Errorf("saving a slot: %w", err)
	}
	tokens := held.tokens
	published.Go(func() {
		defer os.Remove(path) //nolint:errcheck // swept at the next start
		if err := s.publishFile(context.WithoutCancel(ctx), path, tokens, from, pages); err != nil {
			w.config.Logger.Warn("pages were not published", "from", from, "to", pages, "error", err)
		}
	})
	return nil
}

// publishFile cuts a saved file and publishes its pages in a range, under the
// keys of the tokens that the file names.
func (s *sharer) publishFile(ctx context.Context, path string, tokens []int32, from, to int) error {
	file, err := os.Open(path) //nolint:gosec // a name of ours
	if err != nil {
		return fmt.Errorf("reading a slot file: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading a slot file: %w", err)
	}
	saved, err := slotfile.Parse(file, info.Size(), len(tokens))
	if err != nil {
		return err
	}
	if len(saved.Sections) != 1 || !saved.Sections[0].Complete(len(saved.Tokens)) || len(saved.Tokens) < to*PageTokens {
		return errors.New("worker: a saved slot has other cells than its tokens")
	}
	held, free, err := s.buffers(to - from)
	if err != nil {
		return err
	}
	defer free()
	for i, b := range held {
		if err := saved.Sections[0].ReadPage(b[:s.pageBytes], from+i, PageTokens); err != nil {
			return err
		}
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	_, err = s.connector.StoreComputedPrefix(ctx, saved.Tokens, append(make([][]byte, from), held...))
	return err
}
