package policy

// Limits bound what Places remembers.
type Limits struct {
	// Blocks is how many a worker is believed to hold.
	Blocks int
	// Store is how many blocks the workers' common store is believed to hold; 0 is
	// no store.
	Store int
	// Conversations is of how many the home is known.
	Conversations int
}

// DefaultLimits need about 10 MB with eight workers.
var DefaultLimits = Limits{Blocks: 8 << 10, Store: 64 << 10, Conversations: 16 << 10}

// Places remembers which workers have seen which prefixes, and which one served
// each conversation last. It forgets what was used longest ago. It is what a router
// believes: workers and store may have forgotten more, or less.
//
// It is not safe for concurrent use.
type Places struct {
	limits        Limits
	held          map[string]*recent[Key, struct{}] // by worker
	store         *recent[Key, struct{}]
	homes         *recent[conversation, string] // to the worker
	conversations map[string]int                // by worker
}

// A conversation is a session that the client names, or else all whole blocks of
// its last request: the next one begins with them.
type conversation struct {
	session string
	tip     Key
}

// NewPlaces returns Places that remember nothing yet.
func NewPlaces(l Limits) *Places {
	p := &Places{limits: l, held: map[string]*recent[Key, struct{}]{}, conversations: map[string]int{}}
	p.store = newRecent[Key, struct{}](l.Store, nil)
	p.homes = newRecent(l.Conversations, func(_ conversation, worker string) { p.leave(worker) })
	return p
}

// Fill sets what is known of a request: Shared, and of each worker Cached, Home
// and Conversations.
func (p *Places) Fill(workers []Worker, r *Request) {
	r.Shared = known(p.store, r.Prefix) * r.BlockTokens
	_, home, _ := p.home(*r)
	for i := range workers {
		w := &workers[i]
		w.Cached, w.Conversations = 0, p.conversations[w.ID]
		if held := p.held[w.ID]; held != nil {
			w.Cached = known(held, r.Prefix) * r.BlockTokens
		}
		w.Home = home != "" && w.ID == home
	}
}

// Served remembers that a worker serves a request.
func (p *Places) Served(worker string, r Request) {
	held := p.held[worker]
	if held == nil {
		held = newRecent[Key, struct{}](p.limits.Blocks, nil)
		p.held[worker] = held
	}
	for i := len(r.Prefix) - 1; i >= 0; i-- { // so that the first block is forgotten last
		held.put(r.Prefix[i], struct{}{})
		p.store.put(r.Prefix[i], struct{}{})
	}
	if before, home, ok := p.home(r); ok {
		p.homes.remove(before)
		p.leave(home)
	}
	switch {
	case r.Session != "":
		p.settle(conversation{session: r.Session}, worker)
	case len(r.Prefix) > 0:
		p.settle(conversation{tip: r.Prefix[len(r.Prefix)-1]}, worker)
	}
}

// Forget forgets what a worker held: it has gone, or has started anew. What it
// published stays.
func (p *Places) Forget(worker string) {
	delete(p.held, worker)
	p.homes.removeIf(func(_ conversation, at string) bool { return at == worker })
	delete(p.conversations, worker)
}

func (p *Places) settle(c conversation, worker string) {
	if p.limits.Conversations <= 0 {
		return
	}
	p.conversations[worker]++
	p.homes.put(c, worker)
}

func (p *Places) leave(worker string) {
	if p.conversations[worker]--; p.conversations[worker] <= 0 {
		delete(p.conversations, worker)
	}
}

// home returns the conversation that a request continues, and its worker.
func (p *Places) home(r Request) (conversation, string, bool) {
	if r.Session != "" {
		c := conversation{session: r.Session}
		worker, ok := p.homes.get(c)
		return c, worker, ok
	}
	for i := len(r.Prefix) - 1; i >= 0; i-- {
		c := conversation{tip: r.Prefix[i]}
		if worker, ok := p.homes.get(c); ok {
			return c, worker, true
		}
	}
	return conversation{}, "", false
}

// known returns how many leading keys are there.
func known(r *recent[Key, struct{}], keys []Key) int {
	for i, k := range keys {
		if _, ok := r.get(k); !ok {
			return i
		}
	}
	return len(keys)
}
