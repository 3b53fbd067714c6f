package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

func ids(slots []*slot) []int {
	var out []int
	for _, s := range slots {
		out = append(out, s.id)
	}
	slices.Sort(out)
	return out
}

// counted is the tokens from..to-1.
func counted(from, to int) []int32 {
	var t []int32
	for i := from; i < to; i++ {
		t = append(t, int32(i))
	}
	return t
}

func take(t *testing.T, q *queue, tokens []int32, want int) []*slot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	slots, err := q.take(ctx, tokens, want)
	if err != nil {
		t.Fatal(err)
	}
	return slots
}

func TestQueueChoosesTheMostSimilarSlot(t *testing.T) {
	q := newQueue(3)
	q.slots[1].hold(counted(0, 50), 50)
	q.slots[2].hold(counted(0, 20), 20)
	if got := take(t, q, counted(0, 100), anySlot); got[0].id != 1 {
		t.Errorf("slot %d, want 1", got[0].id)
	}
	if got := take(t, q, counted(0, 100), anySlot); got[0].id != 2 {
		t.Errorf("slot %d, want 2", got[0].id)
	}
	if got := take(t, q, counted(0, 100), anySlot); got[0].id != 0 {
		t.Errorf("slot %d, want the last one", got[0].id)
	}
}

func TestQueueFallsBackToTheSlotUsedLongestAgo(t *testing.T) {
	q := newQueue(2)
	a := take(t, q, nil, anySlot)
	b := take(t, q, nil, anySlot)
	q.give(b)
	q.give(a)
	if got := take(t, q, counted(500, 600), anySlot); got[0] != b[0] {
		t.Errorf("slot %d, want %d", got[0].id, b[0].id)
	}
}

func TestQueueIsFair(t *testing.T) {
	q := newQueue(1)
	held := take(t, q, nil, anySlot)
	const n = 20
	order := make(chan int, n)
	for i := range n {
		go func() {
			slots, err := q.take(context.Background(), nil, anySlot)
			if err != nil {
				t.Error(err)
				return
			}
			order <- i
			q.give(slots)
		}()
		for q.waiting() != i+1 {
			time.Sleep(time.Millisecond)
		}
	}
	q.give(held)
	for i := range n {
		if got := <-order; got != i {
			t.Fatalf("request %d was served as number %d", got, i)
		}
	}
}

func TestQueueNamedAndAll(t *testing.T) {
	q := newQueue(2)
	zero := take(t, q, nil, 0)
	done := make(chan []*slot)
	go func() { s, _ := q.take(context.Background(), nil, 0); done <- s }()
	for q.waiting() != 1 {
		time.Sleep(time.Millisecond)
	}
	// One that waits for a named slot holds nobody up.
	one := take(t, q, nil, anySlot)
	if one[0].id != 1 {
		t.Fatalf("slot %d", one[0].id)
	}
	q.give(one)
	q.give(zero)
	named := <-done
	if named[0].id != 0 {
		t.Fatalf("slot %d", named[0].id)
	}
	go func() { s, _ := q.take(context.Background(), nil, allSlots); done <- s }()
	for q.waiting() != 1 {
		time.Sleep(time.Millisecond)
	}
	// One that waits for all is not overtaken for ever.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := q.take(ctx, nil, anySlot); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("overtaken: %v", err)
	}
	q.give(named)
	if all := <-done; !slices.Equal(ids(all), []int{0, 1}) {
		t.Errorf("all slots are %v", ids(all))
	}
}

// A request that gives up while it waits, even at the moment when it is served,
// loses no slot.
func TestQueueLosesNoSlot(t *testing.T) {
	q := newQueue(1)
	for range 500 {
		held := take(t, q, nil, anySlot)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if s, err := q.take(ctx, nil, anySlot); err == nil {
				q.give(s)
			}
		}()
		go cancel()
		q.give(held)
		<-done
	}
	q.give(take(t, q, nil, anySlot))
}

func TestProvenance(t *testing.T) {
	const ubatch = 512
	for _, c := range []struct {
		name             string
		tokens           []int32 // what the slot held
		sound            int
		prompt           []int32
		reused, computed int
		confirmed        bool
		want             int
	}{
		{"cold", nil, 0, counted(0, 600), 0, 600, true, 600},
		{"cold with a short tail", nil, 0, counted(0, 530), 0, 530, true, 512},
		{"on restored pages", counted(0, 512), 512, counted(0, 600), 512, 88, true, 600},
		{"on restored pages, a short tail", counted(0, 512), 512, counted(0, 520), 512, 8, true, 512},
		{"on a prompt's live rows", counted(0, 600), 600, counted(0, 900), 600, 300, true, 900},
		{"on rows of which some are not sound", counted(0, 530), 512, counted(0, 900), 530, 370, true, 512},
		{"less reused than was sound", counted(0, 600), 600, append(counted(0, 300), counted(9000, 9400)...), 300, 400, true, 700},
		{"on generated rows", counted(0, 600), 600, counted(0, 900), 650, 250, true, 0},
		{"on another conversation's rows", counted(5000, 5600), 600, counted(0, 900), 700, 200, true, 0},
		{"a wrong prediction", counted(0, 600), 600, counted(0, 900), 10, 200, false, 0},
	} {
		s := &slot{}
		s.hold(c.tokens, c.sound)
		s.advance(c.prompt, c.reused, c.computed, ubatch, c.confirmed, &remembered{})
		if s.sound != c.want {
			t.Errorf("%s: %d sound rows, want %d", c.name, s.sound, c.want)
		}
	}
}

// Rows beyond a slot's known ones are taken to be from the engine's memory only
// where they cannot be what was generated behind these.
func TestGeneratedRowsAreNotTakenForRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		held *slot
		want int
	}{
		"behind the prompt":         {&slot{tokens: counted(0, 600), sound: 600}, 0},
		"in a slot that is unknown": {&slot{unknown: true}, 0},
		"in an empty slot":          {&slot{}, 900},
		"in another conversation's": {&slot{tokens: append(counted(0, 10), counted(5000, 5600)...), sound: 600}, 900},
	} {
		m := &remembered{limit: 2000}
		m.put(counted(0, 700), 700)
		c.held.advance(counted(0, 900), 650, 250, 512, true, m)
		if c.held.sound != c.want {
			t.Errorf("%s: %d sound rows, want %d", name, c.held.sound, c.want)
		}
	}
	m := &remembered{limit: 2000}
	m.put(counted(0, 700), 700)
	m.distrust()
	m.put(counted(0, 700), 700)
	if n := m.longest(counted(0, 700)); n != 0 {
		t.Errorf("%d tokens of a memory that is not trusted", n)
	}
}

func TestMemory(t *testing.T) {
	m := &remembered{limit: 2000}
	s := &slot{}
	s.hold(counted(0, 600), 600)
	s.advance(counted(5000, 5900), 0, 900, 512, true, m)
	if got := m.longest(counted(0, 800)); got != 600 {
		t.Fatalf("%d tokens are remembered, want 600", got)
	}
	// Back to the first conversation, which goes on.
	s.advance(counted(0, 800), 600, 200, 512, true, m)
	if s.sound != 800 || m.longest(counted(0, 800)) != 0 || m.longest(counted(5000, 6000)) != 900 {
		t.Errorf("sound %d, remembered %d and %d", s.sound, m.longest(counted(0, 800)), m.longest(counted(5000, 6000)))
	}
	// What the engine has forgotten is no longer counted on.
	s.advance(counted(5000, 6000), 0, 1000, 512, true, m)
	if got := m.longest(counted(5000, 6000)); got != 0 || s.sound != 1000 {
		t.Errorf("%d tokens are still taken to be remembered; sound %d", got, s.sound)
	}
	for i := range int32(20) {
		m.put(counted(int(i)*10000, int(i)*10000+500), 0)
	}
	if m.mu.tokens > m.limit || m.longest(counted(0, 500)) != 0 || m.longest(counted(190000, 190500)) != 500 {
		t.Errorf("%d tokens remembered of %d", m.mu.tokens, m.limit)
	}
}
