package connector

import (
	"errors"
	"maps"
	"sync"

	"ollamoon/page"
	"ollamoon/store"
)

// Stats is what a Connector has done since it was made. Looked-up and hit pages
// are counted by one event, at the end of a load, so that their ratio is the
// hit rate.
type Stats struct {
	PagesLookedUp  int64 // pages that a load asked for
	PagesHit       int64 // pages that a load returned
	BytesLoaded    int64 // objects of the pages hit, with their seals
	PagesPublished int64 // pages stored newly
	BytesPublished int64 // their objects, with seals
	// Rejected counts objects that were not the page that their key promised, by
	// page.Reason; "length" also stands for objects of another length.
	Rejected map[string]int64
	// PagesDiscarded were rejected twice and removed from the store;
	// DiscardFailures could not be removed.
	PagesDiscarded, DiscardFailures int64
}

type counts struct {
	mu struct {
		sync.Mutex
		stats Stats
	}
}

// Stats returns the counts so far.
func (c *Connector) Stats() Stats { return c.counts.get() }

func (c *counts) get() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.stats
	s.Rejected = maps.Clone(s.Rejected)
	return s
}

func (c *counts) add(change func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.mu.stats)
}

func (c *counts) loaded(lookedUp, hit, bytes int) {
	c.add(func(s *Stats) {
		s.PagesLookedUp += int64(lookedUp)
		s.PagesHit += int64(hit)
		s.BytesLoaded += int64(bytes)
	})
}

func (c *counts) published(pages, bytes int) {
	c.add(func(s *Stats) {
		s.PagesPublished += int64(pages)
		s.BytesPublished += int64(bytes)
	})
}

func (c *counts) rejected(err error) {
	reason := page.Reason(err)
	if errors.Is(err, store.ErrLength) {
		reason = page.Reason(page.ErrLength)
	}
	c.add(func(s *Stats) {
		if s.Rejected == nil {
			s.Rejected = map[string]int64{}
		}
		s.Rejected[reason]++
	})
}

func (c *counts) discarded(err error) {
	c.add(func(s *Stats) {
		if err != nil {
			s.DiscardFailures++
			return
		}
		s.PagesDiscarded++
	})
}
