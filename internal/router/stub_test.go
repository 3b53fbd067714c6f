package router

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/trust"
)

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		playRole()
		return
	}
	goleak.VerifyTestMain(m)
}

// wait bounds everything that a test waits for.
const wait = 60 * time.Second

// A stub answers as a llama-server or an Ollama server does, as far as a router
// asks it.
type stub struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	slots  int
	models []string
	status map[string]any // of /ollamoon/status; nil is none
	secret trust.Secret
	down   bool // health checks fail
	// answer answers everything else; nil is an answer with the stub's name.
	answer http.HandlerFunc

	name     string
	served   atomic.Int64
	running  atomic.Int64
	most     int64        // that have run at the same time
	gone     atomic.Int64 // requests whose client went
	requests []received
}

// received is what a stub got.
type received struct {
	method, path string
	header       http.Header
	body         string
}

func newStub(t *testing.T, name string, models ...string) *stub {
	s := &stub{t: t, name: name, slots: 2, models: models}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *stub) spec() Spec {
	u, err := url.Parse(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	return Spec{ID: s.name, URL: u}
}

// set changes the stub.
func (s *stub) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down, answer, facts := s.down, s.answer, s.facts(w, r)
	s.mu.Unlock()
	switch {
	case down && (r.URL.Path == "/health" || r.URL.Path == "/api/version"):
		w.WriteHeader(http.StatusInternalServerError)
		return
	case facts != nil:
		writeJSON(w, http.StatusOK, facts)
		return
	case r.URL.Path == "/ollamoon/status":
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.set(func() {
		s.requests = append(s.requests, received{r.Method, r.URL.RequestURI(), r.Header.Clone(), string(body)})
	})
	s.served.Add(1)
	now := s.running.Add(1)
	defer s.running.Add(-1)
	s.set(func() { s.most = max(s.most, now) })
	defer func() {
		if r.Context().Err() != nil {
			s.gone.Add(1)
		}
	}()
	if answer == nil {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, s.name)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer(w, r)
}

// facts are what the stub says of itself.
func (s *stub) facts(w http.ResponseWriter, r *http.Request) any {
	switch r.Method + " " + r.URL.Path {
	case "GET /health":
		return map[string]string{"status": "ok"}
	case "GET /api/version":
		return map[string]string{"version": "0.17.4"}
	case "GET /props":
		return map[string]int{"total_slots": s.slots}
	case "GET /v1/models", "GET /api/tags":
		var list []map[string]string
		for _, m := range s.models {
			list = append(list, map[string]string{"id": m, "name": m, "owner": s.name})
		}
		if r.URL.Path == "/api/tags" {
			return map[string]any{"models": list}
		}
		return map[string]any{"object": "list", "data": list}
	case "GET /ollamoon/status":
		if s.status != nil {
			if s.secret != nil {
				w.Header().Set(trust.ProofHeader, s.secret.Prove(r.Header.Get(trust.NonceHeader)))
			}
			return s.status
		}
	}
	return nil
}

// got returns the requests that it has answered.
func (s *stub) got() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]received(nil), s.requests...)
}

// A front is a router that serves, and a client of it.
type front struct {
	t      *testing.T
	router *Router
	server *httptest.Server
	client *http.Client
	log    *logged
}

// logged is what a router logs.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// config is one for tests: health checks come quickly.
func config(s Surface, stubs ...*stub) Config {
	var specs []Spec
	for _, stub := range stubs {
		specs = append(specs, stub.spec())
	}
	c := NewConfig(s, specs...)
	c.Interval = 20 * time.Millisecond
	return c
}

func newFront(t *testing.T, c Config) *front {
	t.Helper()
	f := &front{t: t, log: &logged{}}
	c.Logger = slog.New(slog.NewTextHandler(f.log, nil))
	var err error
	if f.router, err = New(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	f.server = httptest.NewServer(f.router)
	f.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}, Timeout: wait}
	t.Cleanup(func() {
		f.client.CloseIdleConnections()
		f.server.CloseClientConnections()
		f.server.Close()
		f.router.Close()
		if t.Failed() {
			t.Log(f.log)
		}
	})
	return f
}

// An outcome is what a client gets.
type outcome struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (f *front) ask(method, path, body string, header ...string) outcome {
	return f.askCtx(f.t.Context(), method, path, body, header...)
}

func (f *front) askCtx(ctx context.Context, method, path, body string, header ...string) outcome {
	r, err := http.NewRequestWithContext(ctx, method, f.server.URL+path, strings.NewReader(body))
	if err != nil {
		return outcome{err: err}
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := f.client.Do(r)
	if err != nil {
		return outcome{err: err}
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return outcome{answer.StatusCode, answer.Header, string(data), err}
}

// complete asks for a completion.
func (f *front) complete(prompt string, header ...string) outcome {
	body, err := json.Marshal(map[string]any{"prompt": prompt, "n_predict": 8})
	if err != nil {
		f.t.Fatal(err)
	}
	return f.ask(http.MethodPost, "/completion", string(body), header...)
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("it does not happen: %s", what)
}

// idle waits until nothing runs or waits any more.
func (f *front) idle() {
	f.t.Helper()
	eventually(f.t, "nothing runs", func() bool {
		s := f.router.fleet.status()
		busy := s.Queue.Waiting
		for _, w := range s.Workers {
			busy += w.Running + w.PrefillTokens + w.GenerateTokens
		}
		return busy == 0
	})
}

// state waits until a worker is in a state.
func (f *front) state(id string, want state) {
	f.t.Helper()
	eventually(f.t, fmt.Sprintf("%s is %s", id, want), func() bool {
		for _, w := range f.router.fleet.status().Workers {
			if w.ID == id {
				return w.State == want
			}
		}
		return false
	})
}

// events streams so many tokens as llama-server does, and then waits for more
// until it is released.
func events(n int, release <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range n {
			_, _ = fmt.Fprintf(w, "data: {\"index\":0,\"content\":\"token %d\"}\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		_, _ = io.WriteString(w, "data: {\"content\":\"\",\"stop\":true}\n\n")
	}
}
