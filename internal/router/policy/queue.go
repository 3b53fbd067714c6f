package policy

// MaxPassed is how many later requests may be given to workers before one that
// waits for a worker in particular. Then it takes any that is free.
const MaxPassed = 8

// A Case is a request and the workers that are able to serve it.
type Case struct {
	Request Request
	Workers []Worker
}

// A Placement is which request of a queue goes to which of its case's workers.
type Placement struct {
	Request  int
	Worker   int
	Decision Decision
}

// Next returns the first request of a queue, oldest first, that can go to a worker
// now, or false. The chosen worker has a free slot. A request whose policy prefers
// a busy worker waits for it, but not longer than was expected, and lets later ones
// pass, whose number its Passed has.
//
// The caller gives the request to the worker, adds one to Passed of all before
// it, and calls Next again until it returns false; at(i) is the i-th case of n.
func Next(p Policy, n int, at func(i int) Case) (Placement, bool) {
	for i := range n {
		c := at(i)
		if index, d, ok := place(p, c); ok {
			return Placement{Request: i, Worker: index, Decision: d}, true
		}
	}
	return Placement{}, false
}

// place returns the worker to which a request goes now, if it does.
func place(p Policy, c Case) (int, Decision, bool) {
	var free []int
	for i, w := range c.Workers {
		if w.Free() {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return 0, Decision{}, false
	}
	chosen, d := p.Choose(c.Workers, c.Request)
	if c.Workers[chosen].Free() {
		return chosen, d, true
	}
	late := d.Expected.Wait > 0 && c.Request.Waited > d.Expected.Wait
	if c.Request.Passed < MaxPassed && !late {
		return 0, Decision{}, false
	}
	picked := make([]Worker, len(free))
	for i, at := range free {
		picked[i] = c.Workers[at]
	}
	chosen, d = p.Choose(picked, c.Request)
	d.Why = WhyWaited
	return free[chosen], d, true
}
