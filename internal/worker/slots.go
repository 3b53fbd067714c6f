package worker

import (
	"context"
	"slices"
	"sync"
)

// A slot is what is known of one of the engine's slots. Its fields belong to
// whoever holds it.
type slot struct {
	id int
	// tokens of which the slot's rows are, as far as they are known; the slot may
	// hold more, such as what was generated.
	tokens []int32
	// unknown says that the slot may hold rows of which nothing is known.
	unknown bool
	// sound is how many rows from the first on may be published: prefilled in
	// batches of at least minBatch, or restored from pages.
	sound int
	// stored is how many rows from the first on are in the store's pages, as far as
	// is known.
	stored int
	// short, if not nil, tells the tokens of the short prompt that was answered last,
	// of which nothing was known then. Generated rows may follow it.
	short func(context.Context) ([]int32, error)
	// text of the prompt that was answered last; nil if that is not known.
	text []byte
	// returning says that the engine may bring the prompt that is to be answered back
	// from its memory.
	returning bool
	// tenant is whose prompts it holds.
	tenant string
}

// used reports whether there may be something in the slot.
func (s *slot) used() bool { return s.unknown || len(s.tokens) > 0 }

// forget says that nothing is known of the slot's contents.
func (s *slot) forget() { *s = slot{id: s.id, tenant: s.tenant, unknown: true} }

// hold says that the slot's rows are those of tokens, of which so many are
// sound.
func (s *slot) hold(tokens []int32, sound int) {
	s.stored = min(s.stored, common(s.tokens, tokens))
	s.tokens, s.sound = slices.Clone(tokens), min(sound, len(tokens))
	s.unknown, s.short, s.text = false, nil, nil
}

// minBatch is the least number of tokens computed together whose rows equal
// those of any other such batch, bit for bit.
const minBatch = 64

// advance notes that the engine has computed the prompt of which tokens is a
// prediction: it reused so many rows and computed the rest in batches of ubatch.
// confirmed says that the prediction was right as far as can be told. m is what
// the engine remembers of other conversations.
func (s *slot) advance(tokens []int32, reused, computed, ubatch int, confirmed bool, m *remembered) {
	live := common(s.tokens, tokens)
	if 2*live < len(s.tokens) { // the engine remembers what it drops most of
		m.put(s.tokens, s.sound)
	}
	if !confirmed {
		s.forget()
		return
	}
	var sound int
	if reused <= live {
		sound = min(s.sound, reused)
	} else if sound = m.take(tokens, reused); s.unknown || live > 0 && live == len(s.tokens) {
		sound = 0 // maybe not from the engine's memory: generated rows, or shifted ones
	}
	m.lost(tokens, reused)
	if sound == reused {
		sound += computed
		if rest := computed % ubatch; rest < minBatch {
			sound -= rest
		}
	}
	s.hold(tokens, sound)
}

// common is the length of the longest common prefix.
func common[T comparable](a, b []T) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// A queue hands the engine's slots to requests in the order of their coming.
type queue struct {
	mu struct {
		sync.Mutex
		free    []*slot // the one used longest ago first
		waiting []*wait
		known   []SlotStatus // of each slot, when it was last free
		handed  int          // how often slots were handed out
	}
	slots []*slot
}

// A wait is a request that waits for slots.
type wait struct {
	tenant string
	tokens []int32 // of its prompt, if they are known
	text   []byte  // of its prompt, if it is known
	want   int     // a slot's number; or any, or all
	// returning says that the engine may remember it, without a slot.
	returning bool
	got       chan []*slot
}

const (
	anySlot  = -1
	allSlots = -2
)

func newQueue(n int) *queue {
	q := &queue{}
	for id := range n {
		q.slots = append(q.slots, &slot{id: id})
	}
	q.mu.free = slices.Clone(q.slots)
	q.mu.known = make([]SlotStatus, n)
	return q
}

// take waits for a slot: the one named, or the free one that has most of the
// tokens, or all slots. The caller gives back what it gets.
func (q *queue) take(ctx context.Context, tokens []int32, want int) ([]*slot, error) {
	return q.takeFor(ctx, &wait{tokens: tokens, want: want})
}

// takeFor is take for a wait, of whose tenant's prompts no other tenant's slot has
// any.
func (q *queue) takeFor(ctx context.Context, w *wait) ([]*slot, error) {
	w.got = make(chan []*slot, 1)
	q.mu.Lock()
	q.mu.waiting = append(q.mu.waiting, w)
	q.serve()
	q.mu.Unlock()
	select {
	case slots := <-w.got:
		return slots, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.mu.waiting, w); i >= 0 {
		q.mu.waiting = slices.Delete(q.mu.waiting, i, i+1)
		q.serve()
		return nil, context.Cause(ctx)
	}
	q.mu.free = append(q.mu.free, <-w.got...)
	q.serve()
	return nil, context.Cause(ctx)
}

// give gives slots back.
func (q *queue) give(slots []*slot) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.free = append(q.mu.free, slots...)
	for _, s := range slots {
		q.mu.known[s.id] = s.status()
	}
	q.serve()
}

func (s *slot) status() SlotStatus {
	return SlotStatus{Tokens: len(s.tokens), Sound: s.sound, Unknown: s.unknown}
}

// each returns what is known of each slot.
func (q *queue) each() []SlotStatus {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := slices.Clone(q.mu.known)
	for i := range known {
		known[i].Busy = true
	}
	for _, s := range q.mu.free {
		known[s.id] = s.status() // nobody else has it
	}
	return known
}

// waiting is how many requests wait.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.waiting)
}

// idle is how many slots nobody uses.
func (q *queue) idle() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.free)
}

// alone returns a function that reports whether one slot, the caller's, was the
// only one in use since.
func (q *queue) alone() func() bool {
	look := func() (int, bool) {
		q.mu.Lock()
		defer q.mu.Unlock()
		return q.mu.handed, len(q.mu.free) == len(q.slots)-1
	}
	before, only := look()
	return func() bool {
		after, still := look()
		return only && still && before == after
	}
}

// serve hands out what is free. One that waits for a named slot lets others
// pass; one that waits for all does not.
func (q *queue) serve() {
	for i := 0; i < len(q.mu.waiting); {
		w := q.mu.waiting[i]
		slots := q.choose(w)
		if slots == nil {
			if w.want == allSlots || len(q.mu.free) == 0 {
				return
			}
			i++
			continue
		}
		q.mu.free = slices.DeleteFunc(q.mu.free, func(s *slot) bool { return slices.Contains(slots, s) })
		q.mu.waiting = slices.Delete(q.mu.waiting, i, i+1)
		q.mu.handed++
		w.got <- slots
	}
}

// choose returns the slots for a wait, or nil when they are not free.
func (q *queue) choose(w *wait) []*slot {
	switch {
	case w.want == allSlots:
		if len(q.mu.free) == len(q.slots) {
			return slices.Clone(q.mu.free)
		}
		return nil
	case w.want >= 0:
		if i := slices.IndexFunc(q.mu.free, func(s *slot) bool { return s.id == w.want }); i >= 0 {
			return []*slot{q.mu.free[i]}
		}
		return nil
	case len(q.mu.free) == 0:
		return nil
	}
	// As the engine itself chooses: the most similar, or the one used longest ago.
	best, most := q.mu.free[0], 0.1
	if i := slices.IndexFunc(q.mu.free, (*slot).used); w.returning && i >= 0 {
		best = q.mu.free[i]
	}
	for _, s := range q.mu.free {
		if part := w.similar(s); part > most {
			best, most = s, part
		}
	}
	return []*slot{best}
}
