package policy

import "container/list"

// recent is a map that drops what was put longest ago.
type recent[K comparable, V any] struct {
	limit   int
	dropped func(K, V) // is told what makes room, if not nil
	at      map[K]*list.Element
	order   list.List // of entries, the latest first
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](limit int, dropped func(K, V)) *recent[K, V] {
	return &recent[K, V]{limit: limit, dropped: dropped, at: map[K]*list.Element{}}
}

func (r *recent[K, V]) get(k K) (V, bool) {
	e, ok := r.at[k]
	if !ok {
		var none V
		return none, false
	}
	return e.Value.(entry[K, V]).value, true
}

func (r *recent[K, V]) put(k K, v V) {
	if r.limit <= 0 {
		return
	}
	if e, ok := r.at[k]; ok {
		e.Value = entry[K, V]{k, v}
		r.order.MoveToFront(e)
		return
	}
	r.at[k] = r.order.PushFront(entry[K, V]{k, v})
	if len(r.at) > r.limit {
		last := r.order.Back().Value.(entry[K, V])
		r.remove(last.key)
		if r.dropped != nil {
			r.dropped(last.key, last.value)
		}
	}
}

func (r *recent[K, V]) remove(k K) {
	if e, ok := r.at[k]; ok {
		r.order.Remove(e)
		delete(r.at, k)
	}
}

func (r *recent[K, V]) removeIf(yes func(K, V) bool) {
	for e := r.order.Front(); e != nil; {
		next := e.Next()
		if at := e.Value.(entry[K, V]); yes(at.key, at.value) {
			r.remove(at.key)
		}
		e = next
	}
}
