package connector

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/store"
)

var (
	// ErrRole is returned when the role does not permit the call.
	ErrRole = errors.New("connector: not permitted by the role")
	// ErrBuffer is returned when a page's buffer has not ObjectBytes bytes.
	ErrBuffer = errors.New("connector: buffer of the wrong size")
)

// A Config says who shares what.
type Config struct {
	Role Role
	// Keys cuts prompts and names pages.
	Keys prefix.Config
	// PageBytes is the size of a page's payload, for example a page.Layout's
	// Bytes.
	PageBytes int
	// Section is the part of the cache that the pages hold.
	Section page.Section
	// Sealer seals pages and checks those that are loaded. Nil stands for bare
	// payloads, for exchange with pull request 2800's connector only.
	Sealer *page.Sealer
}

// A Connector shares pages through a store. It is safe for concurrent use.
type Connector struct {
	store  store.Store
	config Config
	counts counts
}

// New returns a Connector over a store, which stays the caller's to close.
func New(s store.Store, config Config) (*Connector, error) {
	if config.Role < Mixed || config.Role > Decode {
		return nil, fmt.Errorf("connector: no %s", config.Role)
	}
	if err := config.Keys.Validate(); err != nil {
		return nil, err
	}
	if config.PageBytes <= 0 {
		return nil, fmt.Errorf("connector: page bytes must be positive, not %d", config.PageBytes)
	}
	return &Connector{store: s, config: config}, nil
}

// ObjectBytes is the size of a page's buffer: the payload, and room for the
// seal behind it.
func (c *Connector) ObjectBytes() int {
	if c.config.Sealer == nil {
		return c.config.PageBytes
	}
	return c.config.PageBytes + page.TrailerBytes
}

// A Match is what a load brought.
type Match struct {
	// Pages were loaded, from the prompt's first; Tokens are theirs.
	Pages, Tokens int
	// Stopped is why the run ended before the last page that there was a buffer
	// for: it wraps store.ErrNotFound when the store does not have the next page,
	// page.ErrSeal when what it has is not that page. It is nil when the run did
	// not end early.
	Stopped error
}

// LoadCachedPrefix fills buffers with the longest run of a prompt's pages, from
// the first, that the store has. buffers[i] is for page i and has ObjectBytes
// bytes; the payload is in its first PageBytes. Full pages without a buffer are
// not asked for.
//
// Buffers past the run hold nothing of use. The error is not nil when nothing
// could be learnt of any page; a page that could not be had ends the run
// without an error, and Match.Stopped says why.
func (c *Connector) LoadCachedPrefix(ctx context.Context, tokens []int32, buffers [][]byte) (Match, error) {
	for i, b := range buffers {
		if len(b) != c.ObjectBytes() {
			return Match{}, c.bufferError(i, b)
		}
	}
	return c.Load(ctx, tokens, len(buffers), func(run int) ([][]byte, error) { return buffers[:run], nil })
}

// Load is LoadCachedPrefix with buffers that are made when it is known how many
// are needed: buffers is called at most once, with the length of the run of pages
// that the store says it has, at most the given number.
func (c *Connector) Load(ctx context.Context, tokens []int32, most int, buffers func(run int) ([][]byte, error)) (Match, error) {
	if !c.config.Role.Loads() {
		return Match{}, fmt.Errorf("loading a prefix as %s: %w", c.config.Role, ErrRole)
	}
	pages, keys, err := c.pages(tokens, most)
	if err != nil || len(pages) == 0 {
		return Match{}, err
	}
	present, err := c.store.BatchExist(ctx, keys)
	if err != nil {
		return Match{}, fmt.Errorf("looking up %d pages: %w", len(keys), err)
	}
	run := prefix.Run(present)
	var failed []error
	if run > 0 {
		into, err := buffers(run)
		if err != nil {
			return Match{}, fmt.Errorf("loading %d pages: %w", run, err)
		}
		if len(into) != run {
			return Match{}, fmt.Errorf("%w: %d buffers for %d pages", ErrBuffer, len(into), run)
		}
		failed = c.load(ctx, pages[:run], keys[:run], into)
	}
	match := Match{Pages: run}
	switch i := firstError(failed); {
	case i < run:
		match = Match{Pages: i, Stopped: fmt.Errorf("page %d: %w", i, failed[i])}
	case run < len(pages):
		match.Stopped = fmt.Errorf("page %d: %w", run, store.ErrNotFound)
	}
	match.Tokens = match.Pages * c.config.Keys.PageTokens
	c.counts.loaded(len(pages), match.Pages, match.Pages*c.ObjectBytes())
	return match, nil
}

// StoreComputedPrefix publishes those of a prompt's pages that the store lacks
// and returns how many were stored newly. buffers[i] holds page i's payload in
// its first PageBytes; a seal is written behind those that are published. Pages
// that someone else has published, or publishes at the same time, are left as
// they are. A nil buffer stands for a page that the caller does not have; it is
// passed over.
//
// The error is that of the first page that could be stored neither by this call
// nor by another.
func (c *Connector) StoreComputedPrefix(ctx context.Context, tokens []int32, buffers [][]byte) (int, error) {
	if !c.config.Role.Publishes() {
		return 0, fmt.Errorf("publishing a prefix as %s: %w", c.config.Role, ErrRole)
	}
	for i, b := range buffers {
		if b != nil && len(b) != c.ObjectBytes() {
			return 0, c.bufferError(i, b)
		}
	}
	pages, keys, err := c.pages(tokens, len(buffers))
	if err != nil || len(pages) == 0 {
		return 0, err
	}
	present, err := c.store.BatchExist(ctx, keys)
	if err != nil {
		return 0, fmt.Errorf("looking up %d pages: %w", len(keys), err)
	}
	var missing []store.Item
	var seals sync.WaitGroup
	for i, there := range present {
		if there || buffers[i] == nil {
			continue
		}
		missing = append(missing, store.Item{Key: keys[i], Bytes: buffers[i]})
		seals.Go(func() { c.seal(buffers[i], pages[i]) })
	}
	seals.Wait()
	if len(missing) == 0 {
		return 0, nil
	}
	stored := 0
	var failure error
	for i, err := range c.store.BatchPut(ctx, missing) {
		switch {
		case err == nil:
			stored++
		case !errors.Is(err, store.ErrExists) && failure == nil:
			failure = fmt.Errorf("publishing %s: %w", missing[i].Key, err)
		}
	}
	c.counts.published(stored, stored*c.ObjectBytes())
	return stored, failure
}

// pages returns the full pages of a prompt, at most so many, with the keys of
// their objects.
func (c *Connector) pages(tokens []int32, most int) ([]prefix.Page, []string, error) {
	keep := min(len(tokens)/c.config.Keys.PageTokens, most)
	pages, err := c.config.Keys.Pages(tokens[:keep*c.config.Keys.PageTokens])
	if err != nil {
		return nil, nil, err
	}
	keys := make([]string, len(pages))
	for i, p := range pages {
		keys[i] = c.config.Section.Key(p.Key)
	}
	return pages, keys, nil
}

func (c *Connector) bufferError(page int, b []byte) error {
	return fmt.Errorf("%w: page %d has %d bytes, an object has %d", ErrBuffer, page, len(b), c.ObjectBytes())
}

// load reads pages into buffers and returns what failed for each. Seals are
// checked while pages arrive.
func (c *Connector) load(ctx context.Context, pages []prefix.Page, keys []string, buffers [][]byte) []error {
	broken := make([]error, len(pages))
	var checks sync.WaitGroup
	items := make([]store.Item, len(pages))
	for i := range items {
		items[i] = store.Item{Key: keys[i], Bytes: buffers[i]}
		if c.config.Sealer == nil {
			continue
		}
		check := c.config.Sealer.Check(buffers[i], c.id(pages[i]))
		items[i].Arrived = check.Arrived
		items[i].Done = func() {
			checks.Go(func() { _, broken[i] = check.Open() })
		}
	}
	failed := c.store.BatchGet(ctx, items)
	checks.Wait()
	for i := range failed {
		if failed[i] == nil {
			failed[i] = broken[i]
		}
	}
	c.heal(ctx, pages, items, failed)
	return failed
}

// heal reads once more what is not the page that its key promises, since the
// backend may have been asked for memory that had changed hands, and discards
// what still is not. It updates failed.
func (c *Connector) heal(ctx context.Context, pages []prefix.Page, items []store.Item, failed []error) {
	var suspects []int
	var again []store.Item
	for i, err := range failed {
		if c.bad(err) {
			c.counts.rejected(err)
			suspects = append(suspects, i)
			again = append(again, store.Item{Key: items[i].Key, Bytes: items[i].Bytes})
		}
	}
	if len(again) == 0 {
		return
	}
	for j, err := range c.store.BatchGet(ctx, again) {
		i := suspects[j]
		if err == nil {
			err = c.open(items[i].Bytes, pages[i])
		}
		if c.bad(err) {
			c.counts.discarded(c.store.Discard(ctx, items[i].Key))
		}
		failed[i] = err
	}
}

// bad reports whether an error says that a key's object is not its page. Bare
// payloads may be another program's, so their length alone condemns nothing.
func (c *Connector) bad(err error) bool {
	return c.config.Sealer != nil && (errors.Is(err, page.ErrSeal) || errors.Is(err, store.ErrLength))
}

// seal seals a page whose buffer has the size of an object.
func (c *Connector) seal(buffer []byte, p prefix.Page) {
	if c.config.Sealer == nil {
		return
	}
	if err := c.config.Sealer.Seal(buffer, c.id(p)); err != nil {
		panic(err) // there is room: the size was checked
	}
}

func (c *Connector) open(buffer []byte, p prefix.Page) error {
	if c.config.Sealer == nil {
		return nil
	}
	_, err := c.config.Sealer.Open(buffer, c.id(p))
	return err
}

// id is what the seal of a page vouches for.
func (c *Connector) id(p prefix.Page) page.ID {
	return page.ID{Hash: p.Hash, Section: c.config.Section}
}

// firstError returns the index of the first error, or the length.
func firstError(errs []error) int {
	for i, err := range errs {
		if err != nil {
			return i
		}
	}
	return len(errs)
}
