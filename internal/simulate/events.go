package simulate

import "container/heap"

// An event is what happens at a time. Of one time, what was foreseen first happens
// first.
type event struct {
	at      float64
	order   uint64
	kind    kind
	request *request
	worker  int
	version uint64 // of an engine's future
	pages   [2]int // of the request's, from and to
}

type kind int

const (
	arrives   kind = iota // a request, at the router
	isLoaded              // a request's pages, at its worker
	engineDue             // something on an engine, unless it has another future by now
	published             // some of a request's pages, in the store
)

// events is a heap, the next on top.
type events struct {
	all   []event
	order uint64
}

func (e *events) add(v event) {
	v.order = e.order
	e.order++
	heap.Push(e, v)
}

func (e *events) take() (event, bool) {
	if len(e.all) == 0 {
		return event{}, false
	}
	return heap.Pop(e).(event), true
}

// Len implements heap.Interface, as do those below.
func (e *events) Len() int { return len(e.all) }

func (e *events) Less(i, j int) bool {
	if e.all[i].at != e.all[j].at {
		return e.all[i].at < e.all[j].at
	}
	return e.all[i].order < e.all[j].order
}

func (e *events) Swap(i, j int) { e.all[i], e.all[j] = e.all[j], e.all[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { e.all = append(e.all, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := e.all[len(e.all)-1]
	e.all = e.all[:len(e.all)-1]
	return last
}
