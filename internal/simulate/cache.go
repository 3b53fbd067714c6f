package simulate

// A cache holds pages and drops those that were used longest ago, as the stores
// do: of pages that are used together the first counts as used last, so that a
// prefix is lost from its end.
type cache struct {
	capacity int // pages
	at       map[int32]int32
	nodes    []node // a ring; nodes[0] is its head
	free     []int32
	added    int64 // ever
	evicted  int64
}

type node struct {
	page       int32
	prev, next int32 // next is older
}

func newCache(capacity int) *cache {
	return &cache{capacity: capacity, at: make(map[int32]int32), nodes: make([]node, 1)}
}

// run returns how many of the leading pages are there.
func (c *cache) run(pages []int32) int {
	for i, page := range pages {
		if _, ok := c.at[page]; !ok {
			return i
		}
	}
	return len(pages)
}

// missing returns how many of some pages are not there.
func (c *cache) missing(pages []int32) int {
	n := 0
	for _, page := range pages {
		if _, ok := c.at[page]; !ok {
			n++
		}
	}
	return n
}

// use makes those of some pages that are there the latest used.
func (c *cache) use(pages []int32) {
	for i := len(pages) - 1; i >= 0; i-- {
		if at, ok := c.at[pages[i]]; ok {
			c.unlink(at)
			c.link(at)
		}
	}
}

// put adds pages that are not there; room is made by what was used longest ago.
// What is put together makes no room for itself: pages beyond the capacity are
// left out, the last ones first.
func (c *cache) put(pages []int32) {
	pages = pages[:max(0, min(len(pages), c.capacity))]
	c.use(pages)
	for i := len(pages) - 1; i >= 0; i-- {
		if at, ok := c.at[pages[i]]; ok {
			c.unlink(at)
			c.link(at)
			continue
		}
		if len(c.at) == c.capacity {
			c.evict()
		}
		at := c.node()
		c.nodes[at].page = pages[i]
		c.at[pages[i]] = at
		c.link(at)
		c.added++
	}
}

func (c *cache) evict() {
	oldest := c.nodes[0].prev
	c.unlink(oldest)
	delete(c.at, c.nodes[oldest].page)
	c.free = append(c.free, oldest)
	c.evicted++
}

func (c *cache) node() int32 {
	if n := len(c.free); n > 0 {
		at := c.free[n-1]
		c.free = c.free[:n-1]
		return at
	}
	c.nodes = append(c.nodes, node{})
	return int32(len(c.nodes) - 1) //nolint:gosec // fewer than pages, which are numbered by 32 bits
}

func (c *cache) link(at int32) {
	first := c.nodes[0].next
	c.nodes[at].prev, c.nodes[at].next = 0, first
	c.nodes[first].prev, c.nodes[0].next = at, at
}

func (c *cache) unlink(at int32) {
	n := c.nodes[at]
	c.nodes[n.prev].next, c.nodes[n.next].prev = n.next, n.prev
}
