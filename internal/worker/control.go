package worker

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"ollamoon/connector"
)

// slotAction returns which slot a request saves, restores or erases.
func (w *Worker) slotAction(r *http.Request, path string) (id int, action string, yes bool) {
	name, ok := strings.CutPrefix(path, "/slots/")
	if !ok || r.Method != http.MethodPost || !w.authorized(r) {
		return 0, "", false
	}
	id, err := strconv.Atoi(name)
	return id, r.URL.Query().Get("action"), err == nil && id >= 0 && id < w.config.Slots
}

// serveSlotAction lets the engine do what a client asks it to do to a slot, when
// nobody else uses it, and forgets what was known of it.
func (w *Worker) serveSlotAction(rw http.ResponseWriter, r *http.Request, id int, action string) {
	slots, err := w.queue.take(r.Context(), nil, id)
	if err != nil {
		return // the client has gone
	}
	defer w.queue.give(slots)
	seen := &status{ResponseWriter: rw}
	defer func() {
		switch {
		case action == "save":
		case action == "erase" && seen.code == http.StatusOK:
			slots[0].hold(nil, 0)
		default:
			slots[0].forget()
		}
	}() // also after a panic, when the answer breaks off
	w.forward.ServeHTTP(seen, r)
}

// A status notes the status of an answer.
type status struct {
	http.ResponseWriter
	code int
}

// WriteHeader notes the status.
func (s *status) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection, to flush it.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Reshare waits until no slot is in use and calls change, which may do
// something to the engine that makes other pages of its prompts, and returns what
// is to be shared from now on; nil is nothing. What was known of the slots is
// forgotten. With an error nothing is shared from now on either.
func (w *Worker) Reshare(ctx context.Context, change func() (*Sharing, error)) error {
	slots, err := w.queue.take(ctx, nil, allSlots)
	if err != nil {
		return err
	}
	defer w.queue.give(slots)
	for _, s := range slots {
		s.forget()
	}
	if before := w.share.Swap(nil); before != nil {
		w.mu.Lock()
		w.mu.past = plus(w.mu.past, before.stats())
		w.mu.Unlock()
	}
	w.memory.distrust()
	sharing, err := change()
	if err != nil || sharing == nil {
		return err
	}
	for _, s := range slots { // the engine would reuse their rows all the same
		if w.config.Engine.Erase(context.WithoutCancel(ctx), s.id) == nil {
			s.hold(nil, 0)
		}
	}
	if err := w.makeFiles(sharing); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	share, err := newSharer(sharing, nil)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	w.share.Store(share)
	return nil
}

// A Status is what a Worker is doing at the moment.
type Status struct {
	Slots, Free, Waiting int // slots; requests that wait for one
	PageTokens           int // tokens in a page; 0 while nothing is shared
	// PageLoad and TokenCompute are what loading a page and computing a token is
	// expected to take; 0 before the first.
	PageLoad, TokenCompute time.Duration
	Pages                  connector.Stats
	// NoRoom counts slot files that there was no room for: what they were for was not
	// shared.
	NoRoom int64
	Each   []SlotStatus
}

// A SlotStatus is what is known of a slot; of one in use, what was known before.
type SlotStatus struct {
	Busy          bool
	Tokens, Sound int
	Unknown       bool
}

// Status returns the present status.
func (w *Worker) Status() Status {
	s := Status{Slots: w.config.Slots, Free: w.queue.idle(), Waiting: w.queue.waiting(), Each: w.queue.each()}
	w.mu.Lock()
	s.Pages = w.mu.past
	w.mu.Unlock()
	if files := w.files.Load(); files != nil {
		s.NoRoom = files.refusals()
	}
	if share := w.share.Load(); share != nil {
		s.PageTokens = share.pageTokens
		s.PageLoad, s.TokenCompute = share.estimates.rates()
		s.Pages = plus(s.Pages, share.stats())
	}
	return s
}
