package simulate

import (
	"container/heap"
)

// load begins to load what the store has of a prompt, if that is worth it, and
// returns when it is there.
func (c *cluster) load(r *request, w *worker) float64 {
	if c.store == nil {
		return c.now
	}
	asked := c.now + c.costs.Lookup
	pages := c.usable(r)
	run := c.store.run(pages)
	tokens := c.pages.Covered(r.prompt, run)
	saved := tokens - c.pages.Covered(r.prompt, w.cache.run(pages))
	if saved <= 0 || c.costs.loading(tokens) >= float64(saved)/c.costs.Prefill {
		return asked
	}
	c.store.use(pages[:run])
	r.loaded = run
	c.traffic.loaded += c.costs.bytes(tokens)
	w.down = max(asked, w.down) + c.costs.bytes(tokens)/c.costs.Load
	return w.down
}

// compute brings a prompt to its engine.
func (c *cluster) compute(r *request) {
	w := c.workers[r.worker]
	w.engine.advance(c.now)
	w.engine.jobs = append(w.engine.jobs, &job{request: r})
	if len(w.engine.jobs) == 1 {
		c.proceed(w)
	}
	c.foresee(r.worker)
}

// proceed brings an engine to work that takes time: the next leg of its prompt, or
// the next prompt.
func (c *cluster) proceed(w *worker) {
	for len(w.engine.jobs) > 0 {
		j := w.engine.jobs[0]
		if j.legs == nil {
			j.legs = c.plan(j.request, w)
		}
		for len(j.legs) > 0 && j.legs[0].left == 0 {
			c.publish(j.request, w, j.legs[0].pages)
			j.legs = j.legs[1:]
		}
		if len(j.legs) > 0 {
			return
		}
		w.engine.jobs = w.engine.jobs[1:]
		if j.request.first == 0 {
			c.answer(j.request, w)
		} else {
			c.leave(j.request)
		}
	}
}

// plan decides what of a prompt is computed, now that it is its turn.
func (c *cluster) plan(r *request, w *worker) []leg {
	r.reused = r.loaded
	if own := w.cache.run(c.usable(r)); own > r.loaded {
		r.reused, r.own = own, true
	}
	at := c.pages.Covered(r.prompt, r.reused)
	legs := []leg{}
	if r.loaded > 0 && !r.own {
		legs = append(legs, leg{left: c.costs.restoring(at)})
	}
	if c.store != nil && c.options.Saves != SaveAfter {
		done := c.published(r)
		ends := steps(r.reused, c.pages.Published(r.prompt), c.pages.Tokens)
		if len(ends) > 0 && c.options.Saves == SaveOnce {
			ends = ends[len(ends)-1:]
		}
		for _, to := range ends {
			next := c.pages.Covered(r.prompt, to)
			legs = append(legs,
				leg{compute: true, left: float64(next - at)},
				leg{left: c.costs.saving(next), pages: [2]int{done, to}})
			at, done = next, to
		}
	}
	return append(legs, leg{compute: true, left: float64(r.prompt.Input - at)})
}

// usable are the pages of a prompt that need not be computed if they are there.
func (c *cluster) usable(r *request) []int32 { return r.prompt.Pages[:c.pages.Usable(r.prompt)] }

// published is how many of the pages that a prompt reuses need not be published:
// all but the last, if it is the worker's own and its prompt had too few tokens
// behind it.
func (c *cluster) published(r *request) int {
	if r.own && c.pages.Rest > 0 && c.store.missing(r.prompt.Pages[r.reused-1:r.reused]) > 0 {
		return r.reused - 1
	}
	return r.reused
}

// Steps are the numbers of pages after which a worker saves that computes so many
// from the first on.
func Steps(pages, pageTokens int) []int { return steps(0, pages, pageTokens) }

// steps are the numbers of pages after which a worker saves its slot and publishes,
// from some that it has until the last: each step computes twice as much as the
// one before. They are those of package worker.
func steps(from, end, pageTokens int) []int {
	var all []int
	for size := max(1, firstStep/pageTokens); from < end; size *= 2 {
		next := min(end, from+size)
		if (end-next)*pageTokens < max(leastStep, size*pageTokens/4) {
			next = end // what is left is not worth a step of its own, which saves all again
		}
		all = append(all, next)
		from = next
	}
	return all
}

// firstStep is how many tokens a worker computes before it first publishes,
// leastStep how many a step has at least.
const (
	firstStep = 1024
	leastStep = 512
)

// saveAfter saves an answered prompt's new pages, if there are any.
func (c *cluster) saveAfter(r *request) bool {
	end := len(r.prompt.Pages)
	if r.reused >= end {
		return false
	}
	w := c.workers[r.worker]
	save := leg{left: c.costs.saving(c.pages.Covered(r.prompt, end)), pages: [2]int{r.reused, end}}
	w.engine.jobs = append(w.engine.jobs, &job{request: r, legs: []leg{save}})
	if len(w.engine.jobs) == 1 {
		c.proceed(w)
	}
	return true
}

// publish sends some pages to the store, of those only that it does not have.
func (c *cluster) publish(r *request, w *worker, pages [2]int) {
	n := 0
	if pages[0] < pages[1] {
		n = c.store.missing(r.prompt.Pages[pages[0]:pages[1]])
	}
	if n == 0 {
		return
	}
	bytes := c.costs.bytes(n * c.pages.Tokens)
	c.traffic.published += bytes
	r.published += n
	w.up = max(c.now, w.up) + bytes/c.costs.Publish
	c.events.add(event{at: w.up, kind: published, request: r, pages: pages})
}

// answer: a prompt is computed, and its first token there.
func (c *cluster) answer(r *request, w *worker) {
	r.first = c.now
	c.view[r.worker].Prefill -= r.prefill
	w.cache.put(r.prompt.Pages)
	if r.prompt.Output > 1 {
		w.engine.generate(r, r.prompt.Output-1)
		return
	}
	c.end(r)
}

// due lets happen what was foreseen of an engine.
func (c *cluster) due(at int, version uint64) {
	w := c.workers[at]
	if version != w.version {
		return
	}
	_, what := w.engine.next()
	w.engine.advance(c.now)
	before := c.ended
	switch what {
	case legEnds:
		w.engine.at().left = 0
		c.proceed(w)
	case streamEnds:
		c.end(heap.Pop(&w.engine.streams).(stream).request)
	case nothing:
	}
	c.foresee(at)
	if c.ended > before {
		c.dispatch()
	}
}

// foresee plans the next event of an engine in place of what was planned.
func (c *cluster) foresee(at int) {
	w := c.workers[at]
	w.version++
	if when, what := w.engine.next(); what != nothing {
		c.events.add(event{at: max(c.now, when), kind: engineDue, worker: at, version: w.version})
	}
}
