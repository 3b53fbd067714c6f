package policy

import "testing"

func TestPlaces(t *testing.T) {
	p := NewPlaces(Limits{Blocks: 4, Store: 6, Conversations: 2})
	ask := func(keys ...Key) Request { return Request{Prefix: keys, BlockTokens: 10} }
	check := func(r Request, shared int, want ...Worker) {
		t.Helper()
		workers := []Worker{{ID: "a"}, {ID: "b"}}
		p.Fill(workers, &r)
		if r.Shared != shared {
			t.Errorf("%v: %d tokens are shared, want %d", r.Prefix, r.Shared, shared)
		}
		for i, w := range want {
			w.ID = workers[i].ID
			if workers[i] != w {
				t.Errorf("%v: %+v, want %+v", r.Prefix, workers[i], w)
			}
		}
	}
	check(ask(1, 2), 0, Worker{}, Worker{})

	p.Served("a", ask(1, 2))
	check(ask(1, 2, 3), 20, Worker{Cached: 20, Home: true, Conversations: 1}, Worker{})
	check(ask(1, 4), 10, Worker{Cached: 10, Conversations: 1}, Worker{})

	p.Served("b", ask(1, 2, 3)) // the conversation moves
	check(ask(1, 2, 3), 30, Worker{Cached: 20}, Worker{Cached: 30, Home: true, Conversations: 1})

	p.Served("b", ask(1, 5, 6)) // b's third block makes room
	check(ask(1, 2, 3), 30, Worker{Cached: 20}, Worker{Cached: 20, Home: true, Conversations: 2})

	named := ask()
	named.Session = "s"
	p.Served("a", named) // the conversation used longest ago makes room
	check(named, 0, Worker{Home: true, Conversations: 1}, Worker{Conversations: 1})
	check(ask(1, 2, 3), 30, Worker{Cached: 20, Conversations: 1}, Worker{Cached: 20, Conversations: 1})

	p.Forget("b")
	check(ask(1, 5, 6), 30, Worker{Cached: 10, Conversations: 1}, Worker{})
}

func TestPlacesWithoutMemory(t *testing.T) {
	p := NewPlaces(Limits{})
	r := Request{Prefix: []Key{1}, BlockTokens: 10, Session: "s"}
	p.Served("a", r)
	workers := []Worker{{ID: "a"}}
	p.Fill(workers, &r)
	if r.Shared != 0 || workers[0] != (Worker{ID: "a"}) {
		t.Errorf("%d tokens, %+v", r.Shared, workers)
	}
}
