package shm

import (
	"context"
	"errors"
	"fmt"
)

// A question is one of the two calls that move bytes.
type question struct {
	name   string
	method string
	get    bool
	decode func([]byte, []Item) ([]Result, error)
}

func putQuestion() question {
	return question{"putting", "batch_put_from_dummy_helper", false, decodePut}
}

func getQuestion() question {
	return question{"getting", "batch_get_into_dummy_helper", true, decodeGet}
}

func (s *Session) encode(q question, items []Item, p *pins) []byte {
	if q.get {
		return encodeGet(items, p.address, s.id)
	}
	return encodePut(items, p.address, s.id, s.options.ConfigType, s.options.WriteConfig)
}

// Put stores objects under keys that have none. It returns a result for each
// item, or an error when nothing is known of any. A key that has an object, or is
// being written, is a success too.
//
// Nothing touches an item's bytes after the call.
func (s *Session) Put(ctx context.Context, items []Item) ([]Result, error) {
	return s.run(ctx, putQuestion(), items)
}

// Get reads objects into the items' bytes. It returns a result for each item, or
// an error when nothing is known of any. An object that is larger than its item
// is -600. What bytes hold is undefined where a get did not succeed.
//
// Nothing touches an item's bytes after the call.
func (s *Session) Get(ctx context.Context, items []Item) ([]Result, error) {
	return s.run(ctx, getQuestion(), items)
}

// run asks the question for all items, in rounds.
func (s *Session) run(ctx context.Context, q question, items []Item) ([]Result, error) {
	results := make([]Result, len(items))
	for _, round := range rounds(items) {
		part := make([]Item, len(round))
		for i, index := range round {
			part[i] = items[index]
		}
		answers, err := s.ask(ctx, q, part)
		if err != nil {
			return nil, fmt.Errorf("%s %d objects through shared memory: %w", q.name, len(items), err)
		}
		for i, index := range round {
			results[index] = answers[i]
		}
	}
	return results, nil
}

// rounds splits items, by index, so that no round names a key twice: the process
// keeps a batch by key, and would serve only the last item of each.
func rounds(items []Item) [][]int {
	var all [][]int
	seen := make(map[string]int, len(items))
	for i, item := range items {
		n := seen[item.Key]
		seen[item.Key]++
		if n == len(all) {
			all = append(all, nil)
		}
		all[n] = append(all[n], i)
	}
	return all
}

// ask asks one question, of items with different keys.
func (s *Session) ask(ctx context.Context, q question, items []Item) ([]Result, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p, err := s.arena.pin(items)
	if err != nil {
		return nil, err
	}
	defer p.unpin()
	done, err := s.start(q, items, p)
	if err != nil {
		p.unpin()
		return nil, err
	}
	select {
	case a := <-done:
		if a.err == nil {
			return s.settle(ctx, q, items, p, a.body)
		}
		err = a.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if p.detach(!q.get) != nil {
		// What is left is to wait for the process, or for the end of the session,
		// after which all of the arena can be taken back.
		if a := <-done; a.err != nil {
			_ = p.detach(!q.get) // nothing else can be done
		}
	}
	return nil, err
}

type answer struct {
	body []byte
	err  error // why there is none
}

// start sends a question. Its answer is waited for until the session ends,
// whatever becomes of who asked.
func (s *Session) start(q question, items []Item, p *pins) (<-chan answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Err(); err != nil {
		return nil, err
	}
	body := s.encode(q, items, p)
	done := make(chan answer, 1)
	s.calls.Go(func() {
		defer close(done)
		defer p.unpin()
		answered, err := s.conn.Call(s.life, service+q.method, body)
		if err != nil {
			// Nothing says that the process has ended the call. The pages are not
			// used again: the arena is retired before they are unpinned.
			s.lose(err)
			err = s.Err()
		}
		done <- answer{answered, err}
	})
	return done, nil
}

// settle reads an answer.
func (s *Session) settle(ctx context.Context, q question, items []Item, p *pins, body []byte) ([]Result, error) {
	results, err := q.decode(body, items)
	if err != nil {
		s.lose(err)
		return nil, s.Err()
	}
	if allInvalid(results) {
		// So it answers, too, when it does not know the arena.
		if err := s.mapped(ctx); err != nil && ctx.Err() == nil {
			s.lose(err)
			return nil, s.Err()
		}
	}
	if !q.get {
		return results, nil
	}
	var running []int
	for i, r := range results {
		switch {
		case !r.Code.hasEnded():
			running = append(running, i)
		case r.Code == 0 && !p.shared(i):
			return nil, fmt.Errorf("%w: another call with the same memory was given up", ErrNotShared)
		}
	}
	if len(running) > 0 {
		s.lose(fmt.Errorf("%w: %d for key %q", errTransfer, results[running[0]].Code, items[running[0]].Key))
		if err := p.detach(false, running...); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// errTransfer: the process has given up on a copy that may still go on.
var errTransfer = errors.New("the process gave up on a get with code")

func allInvalid(results []Result) bool {
	for _, r := range results {
		if r.Code != codeInvalidParameters {
			return false
		}
	}
	return len(results) > 0
}
