package standin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ollamoon/store/breaker"
	"ollamoon/store/open"
)

// A store that cannot be opened is tried again after pauses that grow from the
// first to the longest.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// openStore opens the store, behind a breaker.
func (s *standIn) openStore(ctx context.Context) (*breaker.Store, error) {
	opening, cancel := context.WithTimeout(ctx, s.settings.Deadline)
	defer cancel()
	opened, err := open.Store(opening, s.settings.Store, s.log)
	if err != nil {
		return nil, err
	}
	guarded := breaker.New(s.metrics.Store(opened), breaker.Config{Logger: s.log})
	s.store.Store(guarded) // closed at the end, whether it is used or not
	return guarded, nil
}

// stored waits for the store. While it cannot be opened, requests pass on to the
// engine, and it is tried again; a URL that names no store is not.
func (s *standIn) stored(ctx context.Context, first *future[*breaker.Store]) (*breaker.Store, error) {
	opened, err := first.wait()
	if err == nil || errors.Is(err, open.ErrURL) {
		return opened, err
	}
	s.unshared(again(err))
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
		if opened, err = s.openStore(ctx); err == nil {
			return opened, nil
		}
		s.log.Debug("the store cannot be opened", "error", err)
		s.board.set(state{reason: again(err).Error()})
	}
}

func again(err error) error {
	return fmt.Errorf("the store cannot be opened, and is tried again: %w", err)
}
