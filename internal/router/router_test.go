package router

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Conversations are spread over the workers, and each keeps its own.
func TestConversationsKeepTheirWorkers(t *testing.T) {
	a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
	f := newFront(t, config(Llama, a, b))
	homes := map[int]string{}
	for turn := range 5 {
		for conversation := range 6 {
			prompt := strings.Repeat(fmt.Sprintf("conversation %d ", conversation), 100*(turn+1))
			got := f.complete(prompt)
			if got.status != http.StatusOK || got.err != nil {
				t.Fatal(got)
			}
			if home := homes[conversation]; home != "" && home != got.body {
				t.Errorf("conversation %d, turn %d: from %s to %s", conversation, turn, home, got.body)
			}
			homes[conversation] = got.body
		}
	}
	if a.served.Load() != 15 || b.served.Load() != 15 {
		t.Errorf("a served %d, b %d of 30", a.served.Load(), b.served.Load())
	}
	for session := range 4 {
		name := fmt.Sprint(session)
		first := f.complete("x", sessionHeader, name).body
		for range 3 {
			if got := f.complete("y", sessionHeader, name).body; got != first {
				t.Errorf("session %s: from %s to %s", name, first, got)
			}
		}
	}
	f.idle()
}

// 200 requests at once on two slots: all are answered, no more than two run at the
// same time, and what does not fit into the queue is told when to come again.
func TestManyRequestsOnFewSlots(t *testing.T) {
	a := newStub(t, "a", "m")
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Millisecond)
		_, _ = io.WriteString(w, "done")
	}
	c := config(Llama, a)
	c.Queue = 100
	f := newFront(t, c)
	var mu sync.Mutex
	count := map[int]int{}
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			got := f.complete("prompt")
			mu.Lock()
			defer mu.Unlock()
			count[got.status]++
			if got.status == http.StatusServiceUnavailable && (got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "queue is full")) {
				t.Errorf("%v", got)
			}
		})
	}
	all.Wait()
	if count[http.StatusOK]+count[http.StatusServiceUnavailable] != 200 || count[http.StatusOK] < 102 {
		t.Errorf("by status: %v", count)
	}
	if a.most > 2 || a.served.Load() != int64(count[http.StatusOK]) {
		t.Errorf("%d at the same time, %d served", a.most, a.served.Load())
	}
	f.idle()
}

// A request that finds no place in time is told so.
func TestTheQueueIsBoundedInTime(t *testing.T) {
	a := newStub(t, "a", "m")
	release := make(chan struct{})
	a.slots, a.answer = 1, events(1, release)
	c := config(Llama, a)
	c.QueueWait = 50 * time.Millisecond
	f := newFront(t, c)
	held := f.open("held")
	defer held.close()
	if got := f.complete("late"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("%v", got)
	}
	close(release)
}

// A request waits for its conversation's worker as long as was expected, and then
// takes any that is free.
func TestAWaitThatIsLongerThanExpected(t *testing.T) {
	a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
	release := make(chan struct{})
	for _, s := range []*stub{a, b} {
		s.slots, s.answer = 1, events(1, release)
	}
	f := newFront(t, config(Llama, a, b))
	f.router.fleet.costs.prompt(leastPrompt, leastPrompt*20*time.Microsecond)
	f.router.fleet.costs.answer(firstTokens, firstTokens*time.Millisecond)
	first := f.open("x", sessionHeader, "s")
	began := time.Now()
	second := f.open(strings.Repeat("x", 400_000), sessionHeader, "s") // two seconds of prefill, an eighth of waiting
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("it waited %v for its worker", took)
	}
	if a.running.Load() != 1 || b.running.Load() != 1 {
		t.Errorf("%d run on a, %d on b", a.running.Load(), b.running.Load())
	}
	close(release)
	for _, s := range []*opened{first, second} {
		if _, err := s.rest(); err != nil {
			t.Error(err)
		}
	}
	f.idle()
}

// An opened is a stream of which the first event has been read.
type opened struct {
	t      *testing.T
	body   io.ReadCloser
	lines  *bufio.Reader
	cancel context.CancelFunc
}

func (f *front) open(prompt string, header ...string) *opened {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.server.URL+"/completion", strings.NewReader(`{"stream":true,"prompt":"`+prompt+`"}`))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := f.client.Do(r) //nolint:bodyclose // opened.close does
	if err != nil {
		f.t.Fatal(err)
	}
	o := &opened{t: f.t, body: answer.Body, lines: bufio.NewReader(answer.Body), cancel: cancel}
	if line, err := o.lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		f.t.Fatal(line, err)
	}
	return o
}

func (o *opened) close() {
	o.cancel()
	_ = o.body.Close()
}

// rest reads what is left.
func (o *opened) rest() (string, error) {
	defer o.close()
	data, err := io.ReadAll(o.lines)
	return string(data), err
}

// What has been generated is with the client before more comes.
func TestStreamsAreNotHeldBack(t *testing.T) {
	a := newStub(t, "a", "m")
	release := make(chan struct{})
	a.answer = events(3, release)
	f := newFront(t, config(Llama, a))
	o := f.open("prompt")
	for i := 1; i < 3; i++ {
		_, _ = o.lines.ReadString('\n')
		if line, err := o.lines.ReadString('\n'); err != nil || !strings.Contains(line, fmt.Sprintf("token %d", i)) {
			t.Fatal(line, err)
		}
	}
	close(release)
	if rest, err := o.rest(); err != nil || !strings.HasSuffix(rest, "\"stop\":true}\n\n") || strings.Contains(rest, "error") {
		t.Errorf("%q, %v", rest, err)
	}
	f.idle()
}

// A client that goes, in whatever phase, has its request cancelled and its slot
// freed, and others are not harmed.
func TestAClientThatGoes(t *testing.T) {
	a := newStub(t, "a", "m")
	never := make(chan struct{})
	a.slots, a.answer = 1, events(1, never)
	f := newFront(t, config(Llama, a))
	for range 20 {
		o := f.open("decoding")
		ctx, cancel := context.WithCancel(t.Context())
		var queued sync.WaitGroup
		queued.Go(func() {
			if got := f.askCtx(ctx, http.MethodPost, "/completion", "{}"); got.err == nil {
				t.Errorf("it was answered: %v", got)
			}
		})
		eventually(t, "one waits", func() bool { return f.router.fleet.status().Queue.Waiting == 1 })
		cancel()
		queued.Wait()
		eventually(t, "none waits", func() bool { return f.router.fleet.status().Queue.Waiting == 0 })
		o.close()
		f.idle()
	}
	eventually(t, "the worker's requests are cancelled", func() bool { return a.gone.Load() == 20 && a.running.Load() == 0 })
	if a.served.Load() != 20 {
		t.Errorf("%d requests reached the worker", a.served.Load())
	}
	a.set(func() { a.answer = nil }) // before the first byte
	block := make(chan struct{})
	a.set(func() {
		a.answer = func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-block:
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	var prefill sync.WaitGroup
	prefill.Go(func() { f.askCtx(ctx, http.MethodPost, "/completion", "{}") })
	eventually(t, "it runs", func() bool { return a.running.Load() == 1 })
	cancel()
	prefill.Wait()
	f.idle()
	close(block)
}

// 500 clients go at any moment; nothing of them is left.
func TestManyClientsThatGo(t *testing.T) {
	a := newStub(t, "a", "m")
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 5 {
			_, _ = io.WriteString(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}
	c := config(Llama, a)
	c.Queue = 1000
	f := newFront(t, c)
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%50)*time.Millisecond)
			defer cancel()
			f.askCtx(ctx, http.MethodPost, "/completion", "{}")
		})
	}
	all.Wait()
	f.idle()
	if got := f.complete("after"); got.status != http.StatusOK || !strings.HasSuffix(got.body, "[DONE]\n\n") {
		t.Error(got)
	}
	eventually(t, "the goroutines are over", func() bool {
		f.client.CloseIdleConnections()
		f.router.prober.client.CloseIdleConnections()
		return runtime.NumGoroutine() < before+20
	})
	eventually(t, "the worker's requests are over", func() bool { return a.running.Load() == 0 })
}

// Many streams are open at the same time, and end. bench route opens a thousand.
func TestManyStreams(t *testing.T) {
	many := 200
	if os.Getenv("OLLAMOON_FULL") == "1" {
		many = 1000
	}
	a := newStub(t, "a", "m")
	release := make(chan struct{})
	a.slots, a.answer = many, events(1, release)
	f := newFront(t, config(Llama, a))
	var streams []*opened
	for range many {
		streams = append(streams, f.open("x"))
	}
	close(release)
	for _, s := range streams {
		if rest, err := s.rest(); err != nil || !strings.HasSuffix(rest, "\"stop\":true}\n\n") {
			t.Fatalf("%q, %v", rest, err)
		}
	}
	f.idle()
}

// A client that reads slowly holds up nobody else; one that takes nothing is given
// up.
func TestASlowReader(t *testing.T) {
	a := newStub(t, "a", "m")
	chunk := "data: " + strings.Repeat("x", 32<<10) + "\n\n"
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil && !strings.Contains(r.Header.Get("X-Quick"), "y") {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, chunk)
	}
	c := config(Llama, a)
	c.Stall = 500 * time.Millisecond
	f := newFront(t, c)
	slow := f.open("slow")
	defer slow.close()
	for range 50 {
		if got := f.complete("quick", "X-Quick", "y"); got.status != http.StatusOK || got.body != chunk {
			t.Fatal(got.status, got.err)
		}
	}
	f.idle() // the slow one has been given up
	if a.gone.Load() == 0 {
		eventually(t, "its request is cancelled", func() bool { return a.running.Load() == 0 })
	}
}

func TestRequestsAreBounded(t *testing.T) {
	a := newStub(t, "a", "m")
	c := config(Llama, a)
	c.MaxBody, c.BodyWait = 1000, 200*time.Millisecond
	f := newFront(t, c)
	large := strings.Repeat("x", 1001)
	if got := f.ask(http.MethodPost, "/completion", large); got.status != http.StatusRequestEntityTooLarge {
		t.Error(got)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+"/completion", io.MultiReader(strings.NewReader(large)))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := f.client.Do(r) //nolint:bodyclose // it is closed below
	if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge {
		t.Error(answer, err)
	} else {
		_ = answer.Body.Close()
	}
	reader, writer := io.Pipe()
	defer writer.Close() //nolint:errcheck // never fails
	if r, err = http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+"/completion", reader); err != nil {
		t.Fatal(err)
	}
	if answer, err = f.client.Do(r); err == nil { //nolint:bodyclose // it is; a body that never comes
		if answer.StatusCode != http.StatusBadRequest {
			t.Error(answer.Status)
		}
		_ = answer.Body.Close()
	}
	if a.served.Load() != 0 {
		t.Errorf("%d requests reached the worker", a.served.Load())
	}
	f.idle()
}
