package router

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// reset ends a connection without an answer.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// status answers with a status.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Own", "words")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "as it is")
	}
}

// As long as nothing has been sent, another worker takes the place of one that
// fails.
func TestAnotherWorkerIsAsked(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{
		"reset": reset, "502": status(502), "503": status(503), "504": status(504),
		"aborted": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
			a.answer = fault
			f := newFront(t, config(Llama, a, b))
			for i := range 10 {
				if got := f.complete(fmt.Sprint(i)); got.status != http.StatusOK || got.body != "b" {
					t.Fatal(got)
				}
			}
			if a.served.Load() == 0 || b.served.Load() != 10 {
				t.Errorf("a was asked %d times, b %d", a.served.Load(), b.served.Load())
			}
			f.idle()
		})
	}
}

// What a worker answers passes through as it is: when it is the request's fault,
// and when there is no other worker.
func TestAnswersPassThrough(t *testing.T) {
	for _, code := range []int{200, 400, 404, 413, 429, 500, 503} {
		a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
		a.answer, b.answer = status(code), status(code)
		f := newFront(t, config(Llama, a, b))
		got := f.complete("x")
		if got.status != code || got.body != "as it is" || got.header.Get("X-Own") != "words" {
			t.Error(code, got)
		}
		if asked := a.served.Load() + b.served.Load(); asked != 1 && code != http.StatusServiceUnavailable {
			t.Errorf("%d: %d workers were asked", code, asked)
		}
	}
}

// A worker that closes connections that it has answered on is not taken for one
// that fails.
func TestAConnectionThatHasBeenClosed(t *testing.T) {
	a := newStub(t, "a", "m")
	seen := map[string]bool{}
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		again := false
		a.set(func() { again, seen[r.RemoteAddr] = seen[r.RemoteAddr], true })
		if again {
			reset(w, r)
			return
		}
		_, _ = io.WriteString(w, "a")
	}
	c := config(Llama, a)
	c.Interval = time.Hour
	f := newFront(t, c)
	for range 10 {
		if got := f.complete("x"); got.status != http.StatusOK || got.body != "a" {
			t.Fatal(got)
		}
	}
	if a.served.Load() <= 10 {
		t.Error("no connection was used again")
	}
}

// A request over which workers fall is not given to all of them.
func TestARequestThatFellsWorkers(t *testing.T) {
	var stubs []*stub
	for _, name := range []string{"a", "b", "c", "d"} {
		s := newStub(t, name, "m")
		s.answer = reset
		stubs = append(stubs, s)
	}
	f := newFront(t, config(Llama, stubs...))
	if got := f.complete("poison"); got.status != http.StatusBadGateway {
		t.Error(got)
	}
	asked := 0
	for _, s := range stubs {
		if s.served.Load() > 0 {
			asked++
		}
	}
	if asked != maxBroken {
		t.Errorf("%d workers were asked", asked)
	}
}

// When all fail, the client is told so once.
func TestAllWorkersFail(t *testing.T) {
	a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
	a.answer, b.answer = reset, reset
	f := newFront(t, config(Llama, a, b))
	got := f.complete("x")
	if got.status != http.StatusBadGateway || !strings.Contains(got.body, `"message":"no worker could answer`) {
		t.Error(got)
	}
	for _, s := range []*stub{a, b} { // twice where a connection was used again
		if n := s.served.Load(); n < 1 || n > 2 {
			t.Errorf("%s was asked %d times", s.name, n)
		}
	}
	f.idle()
}

// A worker that dies in the middle of a stream: the client has all whole lines and
// then one error in the stream's format, and nobody else is asked.
func TestAStreamThatBreaks(t *testing.T) {
	const event = "data: {\"content\":\"one\"}\n\n"
	message := errBroken.Error()
	llama := fmt.Sprintf(`{"error":{"code":500,"message":%q,"type":"server_error"}}`, message)
	for _, test := range []struct {
		surface            Surface
		path, kind         string
		sent, want, header string
	}{
		{Llama, "/completion", "text/event-stream", event, event + "\ndata: " + llama + "\n\n", ""},
		{Llama, "/completion", "text/event-stream", event + "data: {\"cont", event + "\ndata: " + llama + "\n\n", ""},
		{Llama, "/v1/chat/completions", "text/event-stream", event, event + "\ndata: " + llama + "\n\ndata: [DONE]\n\n", ""},
		{Llama, "/v1/chat/completions", "text/event-stream", event + "data: [DONE]\n\n", event + "data: [DONE]\n\n", ""},
		{
			Llama, "/v1/messages", "text/event-stream", "event: ping\n",
			"event: ping\n\nevent: error\ndata: " + fmt.Sprintf(`{"error":{"message":%q,"type":"server_error"},"type":"error"}`, message) + "\n\n", "",
		},
		{
			Ollama, "/v1/chat/completions", "text/event-stream; charset=utf-8", event,
			event + "\ndata: " + fmt.Sprintf(`{"error":{"code":null,"message":%q,"param":null,"type":"server_error"}}`, message) + "\n\ndata: [DONE]\n\n", "",
		},
		{Ollama, "/api/chat", "application/x-ndjson", "{\"a\":1}\n{\"b", "{\"a\":1}\n" + fmt.Sprintf(`{"error":%q}`, message) + "\n", ""},
		{
			Ollama, "/api/generate", "application/x-ndjson", "{\"response\":\"\",\"done\":true,\"done_reason\":\"stop\"}\n",
			"{\"response\":\"\",\"done\":true,\"done_reason\":\"stop\"}\n", "",
		},
	} {
		a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
		breaks := func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", test.kind)
			_, _ = io.WriteString(w, test.sent)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		a.answer, b.answer = breaks, breaks
		f := newFront(t, config(test.surface, a, b))
		got := f.ask(http.MethodPost, test.path, `{"model":"m","stream":true}`)
		if got.status != http.StatusOK || got.err != nil || got.body != test.want {
			t.Errorf("%s: %d %q, %v; want %q", test.path, got.status, got.body, got.err, test.want)
		}
		if asked := a.served.Load() + b.served.Load(); asked != 1 {
			t.Errorf("%s: %d workers were asked", test.path, asked)
		}
		f.idle()
	}
}

// An answer that is no stream and breaks is broken off for the client too.
func TestAnAnswerThatBreaks(t *testing.T) {
	a := newStub(t, "a", "m")
	a.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	f := newFront(t, config(Llama, a))
	if got := f.complete("x"); got.err == nil {
		t.Error("it looks whole:", got)
	}
	f.idle()
}

// A worker that fails health checks is taken out, what it has not begun to answer
// goes to another, and it comes back when it answers again.
func TestEjectionAndReturn(t *testing.T) {
	a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
	never := make(chan struct{})
	hang := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-never:
				_, _ = io.WriteString(w, name)
			}
		}
	}
	a.answer, b.answer = hang("a"), hang("b")
	f := newFront(t, config(Llama, a, b))
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			if got := f.complete(fmt.Sprint(i)); got.status != http.StatusOK || got.body != "b" {
				t.Errorf("%v", got)
			}
		})
	}
	eventually(t, "each has one", func() bool { return a.running.Load() == 1 && b.running.Load() == 1 })
	a.set(func() { a.down = true })
	f.state("a", stateEjected)
	eventually(t, "b has both", func() bool { return b.running.Load() == 2 })
	b.set(func() { b.answer = nil })
	close(never)
	for range 5 {
		if got := f.complete("after"); got.body != "b" {
			t.Error(got)
		}
	}
	b.set(func() { b.down = true })
	f.state("b", stateEjected)
	got := f.complete("nobody")
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "no worker is healthy") {
		t.Error(got)
	}
	if got := f.ask(http.MethodGet, "/health", ""); got.status != http.StatusServiceUnavailable {
		t.Error(got)
	}
	a.set(func() { a.down, a.answer = false, nil })
	f.state("a", stateHealthy)
	if got := f.complete("again"); got.body != "a" {
		t.Error(got)
	}
	if got := f.ask(http.MethodGet, "/health", ""); got.status != http.StatusOK || got.body != `{"status":"ok"}` {
		t.Error(got)
	}
	all.Wait()
	f.idle()
}

// A worker that cannot be reached is taken out by the first request that finds it
// so, before a health check does.
func TestAWorkerThatIsGone(t *testing.T) {
	a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
	c := config(Llama, a, b)
	c.Interval = time.Hour
	f := newFront(t, c)
	a.CloseClientConnections()
	a.Close()
	for i := range 10 {
		if got := f.complete(fmt.Sprint(i)); got.body != "b" {
			t.Error(got)
		}
	}
	f.state("a", stateEjected)
}

// A worker that accepts connections and never answers is not ready, and does not
// keep the router from starting.
func TestAWorkerThatHangs(t *testing.T) {
	b := newStub(t, "b", "m")
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a test
	spec, err := ParseSpec("a=http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := config(Llama, b)
	c.Timeout, c.Workers = 200*time.Millisecond, append(c.Workers, spec)
	f := newFront(t, c)
	if got := f.complete("x"); got.body != "b" {
		t.Error(got)
	}
	f.state("a", stateEjected)
}

// A stream that flows is not broken off when the worker's health checks fail; one
// of which nothing comes is.
func TestAnEjectedWorkersStreams(t *testing.T) {
	a := newStub(t, "a", "m")
	release := make(chan struct{})
	a.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for flows := r.Header.Get("X-Flows") != ""; ; {
			_, _ = io.WriteString(w, "data: {}\n\n")
			_ = http.NewResponseController(w).Flush()
			tick := time.After(10 * time.Millisecond)
			if !flows {
				tick = nil
			}
			select {
			case <-tick:
			case <-release:
				_, _ = io.WriteString(w, "data: [DONE]\n\n")
				return
			case <-r.Context().Done():
				return
			}
		}
	}
	c := config(Llama, a)
	c.Timeout = time.Second
	f := newFront(t, c)
	flowing, stuck := f.open("1", "X-Flows", "y"), f.open("2")
	a.set(func() { a.down = true })
	f.state("a", stateEjected)
	if rest, err := stuck.rest(); err != nil || !strings.Contains(rest, errBroken.Error()) {
		t.Errorf("%q, %v", rest, err)
	}
	close(release)
	if rest, err := flowing.rest(); err != nil || !strings.HasSuffix(rest, "data: {}\n\ndata: [DONE]\n\n") {
		t.Errorf("%q, %v", rest[max(0, len(rest)-200):], err)
	}
	f.idle()
}
