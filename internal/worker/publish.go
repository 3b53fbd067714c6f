package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"ollamoon/slotfile"
)

// saveTime bounds a save: an engine saves when its running batch is done.
const saveTime = 2 * time.Minute

// boundary is where a step for publishing a prompt ends, and what an exact answer
// reuses at most: the last page's end that leaves a batch to compute. A cold engine
// may compute a prompt's end in a batch of less than minBatch: exact answers come of
// that same batch, and others of none so small.
func (s *sharer) boundary(tokens int) int {
	end := max(0, tokens-minBatch) / s.pageTokens * s.pageTokens
	for end > 0 && !s.asCold(tokens, end) {
		end -= s.pageTokens
	}
	return end
}

// asCold reports whether a prompt of which so many tokens are reused ends in a batch
// that gives the bits of a cold engine's, where answers are to be exact.
func (s *sharer) asCold(tokens, reused int) bool {
	if !s.Exact || s.UBatch == 0 {
		return true
	}
	cold, last := tokens%s.UBatch, (tokens-reused)%s.UBatch // 0 is a whole one
	small := func(batch int) bool { return batch > 0 && batch < minBatch }
	return cold == last || !small(cold) && !small(last)
}

// publishable is how many tokens of a prompt may be published. Not worth it is a
// prefix that ends in a sliding window: nobody could reuse it.
func (s *sharer) publishable(tokens int) int {
	if end := s.boundary(tokens); end > s.Window {
		return end
	}
	return 0
}

// windowPages is how many whole pages a sliding window has.
func (s *sharer) windowPages() int { return s.Window / s.pageTokens }

// sound is how many pages of a slot may be published. The last one that ends in
// a sliding window may not: the engine computes its end again.
func (s *sharer) sound(held *slot) int {
	pages := held.sound / s.pageTokens
	if pages <= s.windowPages() {
		return max(0, min(pages, s.windowPages()-1))
	}
	return pages
}

// firstStep is how many tokens the first step of a prompt computes; each later
// one doubles it, so that all saves of a prompt copy at most about twice its
// final size.
const firstStep = 1024

// step returns where the step ends that begins at a token, after so many steps.
//
// With a sliding window no step is longer than it, or else the first of its rows
// would have left the cache when it is saved. What ends in the window an engine
// takes up a few tokens before the end: a page more is enough to be past that.
func (s *sharer) step(at, end, steps int) int {
	switch {
	case s.Window > 0 && at == s.windowPages()*s.pageTokens:
		return min(end, at+s.pageTokens)
	case s.Window > 0 && at <= s.Window:
		return min(end, s.windowPages()*s.pageTokens)
	case s.Window > 0:
		return min(end, (at+s.Window)/s.pageTokens*s.pageTokens)
	}
	size := max(firstStep, s.pageTokens) << min(steps, 16)
	next := min(end, (at+size)/s.pageTokens*s.pageTokens)
	if end-next < max(s.pageTokens*2, size/4) {
		return end // what is left is not worth a step of its own, which saves all again
	}
	return next
}

// steps computes a prompt up to a page's end, publishing on the way; progress
// counts what has not ended when steps returns. It returns how many tokens it
// computed, and in which time.
func (w *Worker) steps(ctx context.Context, s *sharer, held *slot, tokens []int32, progress *progress) (correction, error) {
	end := s.publishable(len(tokens))
	var done correction
	if err := w.afresh(ctx, s, held, tokens); err != nil {
		return done, err
	}
	at := w.live(s, held, tokens).perhaps
	for n := 0; at < end; n++ {
		next := s.step(at, end, n)
		sound, alone := min(held.sound, common(held.tokens, tokens)), w.queue.alone()
		timings, err := w.config.Engine.Prefill(ctx, held.id, tokens[:next])
		if err != nil {
			held.forget()
			return done, fmt.Errorf("computing a step: %w", err)
		}
		s.estimates.computed(time.Duration(timings.PromptMS*float64(time.Millisecond)), timings.PromptTokens)
		held.advance(tokens[:next], timings.CacheTokens, timings.PromptTokens, w.config.UBatch, true, &w.memory)
		if s.Exact && !alone() {
			held.sound = min(held.sound, sound) // a row of another's in the batch gives other last bits
		}
		done.tokens += timings.PromptTokens
		done.ms += timings.PromptMS
		if err := w.publish(ctx, s, held, len(held.tokens), progress); err != nil {
			return done, err
		}
		at = next
	}
	return done, nil
}

// afresh empties a slot of which a prompt would reuse a few rows that are not
// sound, such as a template's first words that a short prompt has left: nothing
// that is computed after them could be published. A conversation that goes on, in
// the slot or from the engine's memory, is not published rather than computed anew.
func (w *Worker) afresh(ctx context.Context, s *sharer, held *slot, tokens []int32) error {
	if held.short != nil {
		before, err := held.short(ctx)
		if err != nil {
			return fmt.Errorf("telling the tokens of the prompt before: %w", err)
		}
		held.hold(before, 0)
	}
	few := common(held.tokens, tokens)
	if held.returning || held.unknown || few <= held.sound || few > minBatch || few == len(held.tokens) {
		return nil
	}
	if w.config.Remembered > 0 {
		if err := w.keep(ctx, s, held, nil); err != nil {
			return err
		}
	}
	if err := w.config.Engine.Erase(ctx, held.id); err != nil {
		held.forget()
		return fmt.Errorf("emptying a slot: %w", err)
	}
	held.hold(nil, 0)
	return nil
}

// publish saves a slot and publishes the pages of its sound rows that have not
// been, the latter while the caller goes on and counted in progress. The slot holds
// so many tokens, or savedMore.
func (w *Worker) publish(ctx context.Context, s *sharer, held *slot, tokens int, progress *progress) error {
	from, pages := held.stored/s.pageTokens, s.sound(held)
	if pages <= from {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // the engine writes the file also when the client has gone
	saving, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	room := tokens
	if room == savedMore {
		room = w.config.Context
	}
	file, err := w.files.Load().reserve(room, s.estimates.token())
	if err != nil {
		return err
	}
	begin := time.Now()
	_, err = w.config.Engine.Save(saving, held.id, file.name, tokens)
	took := time.Since(begin)
	w.config.Observer.Saved(took, err)
	if err != nil {
		file.remove()
		return fmt.Errorf("saving a slot: %w", err)
	}
	file.written()
	file.moved(took)
	s.estimates.saved(took, len(held.tokens))
	known := held.tokens
	held.stored = pages * s.pageTokens // or they are another's to publish
	progress.begun = true
	progress.Go(func() {
		defer file.remove()
		progress.publishing.Lock()
		defer progress.publishing.Unlock()
		begin := time.Now()
		stored, err := s.publishFile(ctx, file.path, known, w.config.Context, from, pages)
		w.config.Observer.Published(time.Since(begin), err)
		progress.ended(pages*s.pageTokens, err)
		w.published(ctx, stored, err, "from", from, "to", pages)
	})
	return nil
}

// savedMore stands for a slot that holds more than the tokens that are known: those
// that were generated after them.
const savedMore = -1

// publishFile cuts a saved file, of at most so many tokens, and publishes its
// pages in a range, under the keys of the tokens that the file names; these begin
// with those known. It returns how many the store has newly.
func (s *sharer) publishFile(ctx context.Context, path string, known []int32, most, from, to int) (stored int, err error) {
	file, err := os.Open(path) //nolint:gosec // a name of ours
	if err != nil {
		return 0, fmt.Errorf("reading a slot file: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	info, err := file.Stat()
	if err != nil {
		return 0, fmt.Errorf("reading a slot file: %w", err)
	}
	saved, err := slotfile.Parse(file, info.Size(), most)
	if err != nil {
		return 0, err
	}
	// The last token that was generated has no cell.
	cells := len(saved.Tokens)
	if len(saved.Sections) > 0 && cells > len(known) {
		cells = len(saved.Sections[0].Positions)
	}
	if len(saved.Sections) != len(s.parts) || !saved.Sections[0].Complete(cells) || min(cells, common(saved.Tokens, known)) < to*s.pageTokens {
		return 0, errors.New("worker: a saved slot has other cells than its tokens")
	}
	if from, err = s.missing(ctx, saved.Tokens, from); err != nil {
		return 0, err
	}
	for ; from < to; from += s.window() {
		n, err := s.publishWindow(ctx, saved, from, min(from+s.window(), to))
		if stored += n; err != nil {
			return stored, err
		}
	}
	return stored, nil
}

// missing returns the first page that the store has not, of those before a page: it
// may have lost, or refused, what was published.
func (s *sharer) missing(ctx context.Context, tokens []int32, before int) (int, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.cache.Stored(ctx, tokens, before)
}

// publishWindow publishes some of a file's pages.
func (s *sharer) publishWindow(ctx context.Context, saved *slotfile.File, from, to int) (stored int, err error) {
	held, err := s.cut(saved, from, to)
	if err != nil {
		return 0, err
	}
	defer held.free()
	ctx, cancel := s.within(ctx)
	defer cancel()
	return s.cache.StoreComputedPrefix(ctx, saved.Tokens, held.sections)
}

// cut reads those of a file's pages that it has, in a range.
func (s *sharer) cut(saved *slotfile.File, from, to int) (*buffers, error) {
	wanted := make([][]bool, len(s.parts))
	for i := range wanted {
		wanted[i] = make([]bool, to)
		for page := from; page < to; page++ {
			wanted[i][page] = i == 0 || saved.Sections[i].HasPage(page, s.pageTokens)
		}
	}
	held, err := s.allocate(wanted)
	if err != nil {
		return nil, err
	}
	for i, objects := range held.sections {
		for page, object := range objects {
			if object == nil {
				continue
			}
			if err := saved.Sections[i].ReadPage(object[:s.payloadBytes(i)], page, s.pageTokens); err != nil {
				held.free()
				return nil, err
			}
		}
	}
	return held, nil
}
