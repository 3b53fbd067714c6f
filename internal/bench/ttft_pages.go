package bench

import (
	"context"
	"errors"
	"fmt"

	"ollamoon/internal/worker"
	"ollamoon/prefix"
	"ollamoon/store"
	"ollamoon/store/open"
)

// A shelf is the two stores of a measurement. A prompt is published into one and
// copied into the other, so that it is computed once.
type shelf struct {
	keys             prefix.Config
	objectBytes      int // of a page
	mooncake, folder store.Store
}

// openShelf opens the stores when the stand-ins share prompts.
func (t *ttft) openShelf(ctx context.Context, folder string) (err error) {
	for _, l := range []*llama{t.publisher, t.tcp, t.file} {
		s, err := l.until(ctx, "prompts are shared", func(s sharingStatus) bool { return s.Sharing })
		if err != nil {
			return err
		}
		if t.pages.keys.Model != "" && s.Namespace != t.pages.keys.Model {
			return fmt.Errorf("%s: %w: its namespace is %s, not %s", l.name, errUnexpected, s.Namespace, t.pages.keys.Model)
		}
		t.pages.keys = prefix.Config{Model: s.Namespace, PageTokens: worker.DefaultPageTokens}
	}
	if t.pages.mooncake, err = open.Store(ctx, t.overTCP(), nil); err != nil {
		return fmt.Errorf("opening the store: %w", err)
	}
	if t.pages.folder, err = open.Store(ctx, folder, nil); err != nil {
		return fmt.Errorf("opening the folder of pages: %w", err)
	}
	return nil
}

// copy puts a prompt's pages into the folder too.
func (s *shelf) copy(ctx context.Context, tokens []int32) error {
	keys, err := keysOf(s.keys, tokens)
	if err != nil {
		return err
	}
	buffer := make([]byte, s.objectBytes)
	for _, key := range keys {
		page := []store.Item{{Key: key, Bytes: buffer}}
		err := errors.Join(s.mooncake.BatchGet(ctx, page)...)
		if err == nil {
			err = errors.Join(s.folder.BatchPut(ctx, page)...)
		}
		if err != nil {
			return fmt.Errorf("copying %s: %w", key, err)
		}
	}
	return nil
}

// remove takes a prompt's pages out of both stores.
func (s *shelf) remove(ctx context.Context, tokens []int32) error {
	keys, err := keysOf(s.keys, tokens)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := errors.Join(s.mooncake.Discard(ctx, key), s.folder.Discard(ctx, key)); err != nil {
			return fmt.Errorf("removing %s: %w", key, err)
		}
	}
	return nil
}

func (s *shelf) close() {
	for _, opened := range []store.Store{s.mooncake, s.folder} {
		if opened != nil {
			_ = opened.Close() // nothing more is wanted of it
		}
	}
}
