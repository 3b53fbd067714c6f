package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/engine/enginetest"
	"ollamoon/store/faulty"
)

// A phase is a time of a request's life in which its client goes away.
type phase struct {
	name string
	body func(i int) map[string]any
	// begin is called before each request, with all slots held and empty.
	begin func(slots []*slot)
	cue   func(i int) func(*departure) bool
}

// Clients go away in every phase of a request. The slot is free again at once,
// the engine's as soon as its batch is over; no buffer of the store, slot file,
// child or half page is left, and other requests are not harmed.
func TestClientsThatLeave(t *testing.T) {
	t.Run("two layers", func(t *testing.T) { leaving(t, times(40, 500), "-m", enginetest.Small(t)) })
	if full() {
		t.Run("the whole model", func(t *testing.T) { leaving(t, 20) })
	}
}

// leaving has clients go away in every phase, n in each.
func leaving(t *testing.T, n int, args ...string) {
	t.Helper()
	lending := &lender{Store: newStore(t)}
	cues := faulty.New(lending)
	var sharing *Sharing
	args = append([]string{"-c", "2048", "-np", "2", "-no-kvu", "-b", "128", "-ub", "128"}, args...)
	r := start(t, cues, func(s *Sharing) { sharing = s }, args...)
	judge := outside(t, sharing)
	prompt := r.tokens("p", 330)
	want := r.ask(greedy(prompt))
	if got := pagesOf(t, judge, prompt); got != 1 {
		t.Fatalf("%d pages of %d tokens were published", got, len(prompt))
	}
	other := func(i int) []int32 {
		tokens := append([]int32{}, prompt...)
		tokens[0] = int32(1000 + i) //nolint:gosec // few
		return tokens
	}
	short, long := greedy(prompt), greedy(prompt)
	short["n_predict"], long["n_predict"], long["ignore_eos"] = 1, 120, true
	streamed := map[string]any{"stream": true}
	for k, v := range long {
		streamed[k] = v
	}
	the := func(body map[string]any) func(int) map[string]any { return func(int) map[string]any { return body } }
	anew := 0
	fresh := func(int) map[string]any {
		anew++
		return greedy(other(anew))
	}
	calls := func(op faulty.Op) func(int) func(*departure) bool {
		return func(int) func(*departure) bool {
			before, _ := cues.Calls(op)
			return func(*departure) bool {
				n, _ := cues.Calls(op)
				return n > before
			}
		}
	}
	during := func(most time.Duration) func(int) func(*departure) bool {
		return func(int) func(*departure) bool { return after(most) }
	}
	hang := func(op faulty.Op) func([]*slot) {
		return func([]*slot) { cues.Add(faulty.Fault{Ops: op, Hang: true}) }
	}
	unknown := func(slots []*slot) {
		for _, s := range slots {
			s.forget()
		}
	}
	file := func(int) func(*departure) bool { return r.atFile }
	phases := []phase{
		{name: "decode", body: the(long), cue: during(200 * time.Millisecond)},
		{name: "stream", body: the(streamed), cue: func(i int) func(*departure) bool {
			return func(d *departure) bool { return d.read.Load() > int64(i)*100 }
		}},
		{name: "predicting", body: the(short), cue: during(8 * time.Millisecond)},
		{name: "lookup", body: the(short), begin: hang(faulty.Exist), cue: calls(faulty.Exist)},
		{name: "load", body: the(short), begin: hang(faulty.Get), cue: calls(faulty.Get)},
		{name: "keeping a conversation", body: the(short), begin: unknown, cue: during(60 * time.Millisecond)},
		{name: "restore", body: the(short), begin: unknown, cue: file},
		{name: "prefill", body: fresh, cue: during(60 * time.Millisecond)},
		{name: "save", body: fresh, cue: file},
		{name: "publishing", body: fresh, cue: calls(faulty.Put), begin: func([]*slot) {
			cues.Add(faulty.Fault{Ops: faulty.Put, Delay: 20 * time.Millisecond})
		}},
	}
	born := children(t)
	stop := r.bystander()
	var freed, idle time.Duration
	for _, p := range phases {
		left, tries, begun := 0, 0, time.Now()
		for ; left < n && tries < 20*n; tries++ { // some are answered before they leave
			i := tries % 40
			r.held(func(slots []*slot, _ time.Duration) {
				r.emptied(slots)
				cues.Clear()
				if p.begin != nil {
					p.begin(slots)
				}
			})
			if r.leave(p.body(i), p.cue(i)) {
				left++
			}
			gone := time.Now()
			r.held(func(_ []*slot, took time.Duration) {
				freed = max(freed, took)
				for r.busy() > 0 {
					if time.Since(gone) > time.Minute {
						t.Fatalf("%s: the engine works on: %s", p.name, r.engine.Tail())
					}
					time.Sleep(time.Millisecond)
				}
				idle = max(idle, time.Since(gone))
				r.worker.publishes.Wait()
				if n := lending.out.Load(); n != 0 {
					t.Errorf("%s %d: %d buffers of the store are left", p.name, i, n)
				}
				if files := r.slotFiles(); len(files) > 0 {
					t.Errorf("%s %d: slot files are left: %v", p.name, i, files)
				}
			})
		}
		t.Logf("%s: in %v %d left in %d tries; slots were free after at most %v, the engine's after %v",
			p.name, time.Since(begun), left, tries, freed, idle)
		if left < n {
			t.Errorf("%s: only %d of %d left before the end, in %d tries", p.name, left, n, tries)
		}
		cues.Clear()
		r.fresh(0)
		if got := r.ask(greedy(prompt)); got.Content != want.Content || got.Timings.CacheTokens != PageTokens {
			t.Errorf("after %s: %q with %d tokens reused, want %q", p.name, got.Content, got.Timings.CacheTokens, want.Content)
		}
	}
	r.queued(n)
	stop()
	whole := 0
	for i := range anew {
		whole += pagesOf(t, judge, other(i+1))
	}
	t.Logf("of %d prompts that were left %d pages are in the store", anew, whole)
	if got := children(t); got != born {
		t.Errorf("%d children, before %d", got, born)
	}
	if got := r.worker.Status(); got.Free != 2 || got.Waiting != 0 {
		t.Errorf("status %+v", got)
	}
}

// queued has clients go away while they wait for a slot, behind the bystander.
func (r *running) queued(n int) {
	r.t.Helper()
	waiting := func(n int) {
		for end := time.Now().Add(patience); r.worker.Status().Waiting != n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				r.t.Fatalf("%d requests wait, want %d", r.worker.Status().Waiting, n)
			}
		}
	}
	r.held(func([]*slot, time.Duration) {
		for range n {
			waiting(1)
			if !r.leave(greedy("one two"), func(*departure) bool { return r.worker.Status().Waiting > 1 }) {
				r.t.Error("a request was answered while all slots were held")
			}
		}
		waiting(1)
	})
}

// held calls do with all slots held, and how long it took to get them.
func (r *running) held(do func(slots []*slot, took time.Duration)) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	begin := time.Now()
	slots, err := r.worker.queue.take(ctx, nil, allSlots)
	if err != nil {
		r.t.Fatalf("a slot is not given back: %v", err)
	}
	defer r.worker.queue.give(slots)
	do(slots, time.Since(begin))
}

// emptied empties slots that the caller holds.
func (r *running) emptied(slots []*slot) {
	r.t.Helper()
	for _, s := range slots {
		if err := r.engine.Erase(r.t.Context(), s.id); err != nil {
			r.t.Fatal(err)
		}
		s.hold(nil, 0)
	}
}

// bystander asks something all the time until it is stopped, and fails the test
// when an answer is another one.
func (r *running) bystander() (stop func()) {
	const (
		question = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"
		pause    = 200 * time.Millisecond // between its requests
	)
	ask := func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		body := fmt.Sprintf(`{"prompt":%q,"n_predict":4,"temperature":0}`, question)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/completion", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		var a answer
		err = json.NewDecoder(response.Body).Decode(&a)
		return a.Content, err
	}
	over, ended := make(chan struct{}), make(chan struct{})
	asked := 0
	go func() {
		defer close(ended)
		var want string
		for {
			got, err := ask()
			if asked++; asked == 1 {
				want = got
			}
			if err != nil || got == "" || got != want {
				r.t.Errorf("a bystander's answer is %q, want %q: %v", got, want, err)
			}
			select {
			case <-over:
				return
			case <-time.After(pause):
			}
		}
	}()
	return func() {
		close(over)
		<-ended
		r.t.Logf("a bystander was answered %d times", asked)
	}
}
