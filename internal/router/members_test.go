package router

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ollamoon/internal/trust"
)

// sharing is the status of a worker that shares pages.
func sharing(namespace string, pageTokens int) map[string]any {
	return map[string]any{
		"sharing": true, "namespace": namespace, "namespace_words": "words of " + namespace, "page_tokens": pageTokens,
		"estimates": map[string]float64{"page_load_ms": 5.12, "token_compute_ms": 3},
	}
}

// Workers that share must do so alike; the router does not start otherwise.
func TestWorkersThatDoNotFit(t *testing.T) {
	a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
	for _, test := range []struct {
		name  string
		a, b  map[string]any
		other bool // b has another model
		want  string
	}{
		{"alike", sharing("n@1", 256), sharing("n@1", 256), false, ""},
		{"none shares", nil, nil, false, ""},
		{"one shares", sharing("n@1", 256), map[string]any{"sharing": false}, false, ""},
		{"other models", sharing("n@1", 256), sharing("n@2", 256), true, ""},
		{"namespaces", sharing("n@1", 256), sharing("n@2", 256), false, `b has the model "m" as n@2 (words of n@2), a as n@1 (words of n@1)`},
		{"page sizes", sharing("n@1", 256), sharing("n@1", 128), false, "pages of 128 tokens at b, of 256 at a"},
		{"page sizes of other models", sharing("n@1", 256), sharing("n@2", 128), true, "pages of 128 tokens at b, of 256 at a"},
	} {
		a.set(func() { a.status = test.a })
		b.set(func() {
			b.status, b.models = test.b, []string{"m"}
			if test.other {
				b.models = []string{"other"}
			}
		})
		rt, err := New(t.Context(), config(Llama, a, b))
		if err == nil {
			rt.Close()
		}
		if (test.want == "") != (err == nil) || err != nil && (!errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// One that comes later and does not fit is not used, and the status says why.
func TestAWorkerThatNoLongerFits(t *testing.T) {
	a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
	a.status, b.status = sharing("n@1", 256), sharing("n@1", 256)
	f := newFront(t, config(Llama, a, b))
	b.set(func() { b.status = sharing("n@2", 256) })
	f.state("b", stateRefused)
	for i := range 6 {
		if got := f.complete(fmt.Sprint(i)); got.body != "a" {
			t.Error(got)
		}
	}
	for _, w := range f.router.fleet.status().Workers {
		if w.ID == "b" && !strings.Contains(w.Reason, "words of n@2") {
			t.Errorf("%+v", w)
		}
	}
	b.set(func() { b.status = sharing("n@1", 256) })
	f.state("b", stateHealthy)
	if costs := f.router.fleet.costs.now(); costs.Prefill != 3*time.Millisecond || costs.Load != 20*time.Microsecond {
		t.Errorf("the workers' estimates are not used: %+v", costs)
	}
}

const token = "the admin's token" //nolint:gosec // a test's

func (f *front) admin(method, path, body string) outcome {
	return f.ask(method, path, body, "Authorization", "Bearer "+token)
}

// Workers come and go while the router runs.
func TestWorkersAtRunTime(t *testing.T) {
	a, b := newStub(t, "a", "m"), newStub(t, "b", "m")
	release := make(chan struct{})
	a.answer = events(1, release)
	c := config(Llama, a)
	c.AdminToken = token
	f := newFront(t, c)
	add := fmt.Sprintf(`{"id":"b","url":%q}`, b.URL)
	if got := f.admin(http.MethodPost, "/ollamoon/workers", add); got.status != http.StatusCreated || !strings.Contains(got.body, `"state": "healthy"`) {
		t.Error(got)
	}
	if got := f.admin(http.MethodPost, "/ollamoon/workers", add); got.status != http.StatusConflict {
		t.Error("a second of the name:", got)
	}
	for _, bad := range []string{"", `{}`, `{"url":"file:///x"}`, `{"url":"http://x/path"}`} {
		if got := f.admin(http.MethodPost, "/ollamoon/workers", bad); got.status != http.StatusBadRequest || !strings.Contains(got.body, "http://HOST:PORT") {
			t.Error(bad, got)
		}
	}
	var list []WorkerStatus
	if got := f.admin(http.MethodGet, "/ollamoon/workers", ""); json.Unmarshal([]byte(got.body), &list) != nil || len(list) != 2 || list[1].Slots != 2 {
		t.Error(got)
	}
	streams := []*opened{f.open("1", sessionHeader, "s")}
	if got := f.admin(http.MethodDelete, "/ollamoon/workers/a", ""); got.status != http.StatusAccepted {
		t.Error(got)
	}
	f.state("a", stateDraining)
	for i := range 5 {
		if got := f.complete(fmt.Sprint(i), sessionHeader, "s"); got.body != "b" {
			t.Error(got)
		}
	}
	close(release)
	for _, s := range streams {
		if rest, err := s.rest(); err != nil || strings.Contains(rest, "error") {
			t.Errorf("it is broken off: %q, %v", rest, err)
		}
	}
	eventually(t, "a is removed", func() bool { return len(f.router.fleet.status().Workers) == 1 })
	if got := f.admin(http.MethodDelete, "/ollamoon/workers/a", ""); got.status != http.StatusNotFound {
		t.Error(got)
	}
	never := make(chan struct{})
	b.set(func() { b.answer = events(1, never) })
	broken := f.open("2")
	f.admin(http.MethodDelete, "/ollamoon/workers/b?now=true", "")
	if rest, err := broken.rest(); err != nil || !strings.Contains(rest, errBroken.Error()) {
		t.Errorf("%q, %v", rest, err)
	}
	eventually(t, "b is removed", func() bool { return len(f.router.fleet.status().Workers) == 0 })
	if got := f.complete("x"); got.status != http.StatusServiceUnavailable {
		t.Error(got)
	}
}

func TestAdminIsGuarded(t *testing.T) {
	a := newStub(t, "a", "m")
	open := newFront(t, config(Llama, a))
	if got := open.admin(http.MethodGet, "/ollamoon/workers", ""); got.status != http.StatusForbidden {
		t.Error("without a token of its own:", got)
	}
	if got := open.ask(http.MethodGet, "/ollamoon/status", ""); got.status != http.StatusOK {
		t.Error(got)
	}
	c := config(Llama, a)
	c.AdminToken, c.Keys = token, testKeys(t, "k1")
	f := newFront(t, c)
	for _, path := range []string{"/ollamoon/workers", "/ollamoon/status", "/ollamoon/metrics"} {
		if got := f.ask(http.MethodGet, path, "", "Authorization", "Bearer k1"); got.status != http.StatusUnauthorized {
			t.Error(path, "with a tenant's key:", got)
		}
		if got := f.admin(http.MethodGet, path, ""); got.status != http.StatusOK {
			t.Error(path, got)
		}
	}
	if got := f.ask(http.MethodGet, "/ollamoon/other", ""); got.status != http.StatusNotFound {
		t.Error(got)
	}
	r := newRequest(t, http.MethodGet, "/ollamoon/workers")
	r.RemoteAddr = "10.1.2.3:4"
	r.Header.Set("Authorization", "Bearer "+token)
	if w := record(f.router, r); w.Code != http.StatusForbidden {
		t.Error("from another machine:", w.Code, w.Body)
	}
}

// Each key is a tenant, of whom the worker is told so that it can believe it; what
// a client says of tenants does not count.
func TestTenants(t *testing.T) {
	a := newStub(t, "a", "m")
	secret := trust.Secret("0123456789abcdef")
	a.status, a.secret = sharing("n@1", 256), secret
	c := config(Llama, a)
	c.Keys, c.Secret, c.WorkerKey = testKeys(t, "one k1\n# a comment\n\ntwo k2\ntwo k3\nk4"), secret, "the worker's"
	f := newFront(t, c)
	for key, want := range map[string]string{"k1": "one", "k2": "two", "k3": "two", "k4": testTenant("k4")} {
		for _, header := range []string{"Authorization", "X-Api-Key"} {
			value := key
			if header == "Authorization" {
				value = "Bearer " + key
			}
			a.set(func() { a.requests = nil })
			if got := f.complete("x", header, value, trust.TenantHeader, "root", trust.AuthHeader, "1:2"); got.status != http.StatusOK {
				t.Fatal(key, got)
			}
			arrived := a.got()[0]
			r := newRequest(t, arrived.method, arrived.path)
			r.Header = arrived.header
			tenant, err := secret.Tenant(r, time.Now())
			if err != nil || tenant != want || arrived.header.Get("Authorization") != "Bearer the worker's" || arrived.header.Get("X-Api-Key") != "" {
				t.Errorf("%s: tenant %q, %v; %v", key, tenant, err, arrived.header)
			}
		}
	}
	a.set(func() { a.requests = nil })
	for _, key := range []string{"", "k", "k1 ", "root"} {
		if got := f.complete("x", "X-Api-Key", key); got.status != http.StatusUnauthorized && strings.TrimSpace(key) == key {
			t.Errorf("%q: %v", key, got)
		}
	}
	if got := f.ask(http.MethodGet, "/health", ""); got.status != http.StatusOK {
		t.Error("health needs a key:", got)
	}
	if got := f.ask(http.MethodGet, "/v1/models", ""); got.status != http.StatusUnauthorized {
		t.Error(got)
	}
}

// Router and worker know each other, or the router does not start.
func TestAWorkerWithoutTheSecret(t *testing.T) {
	a := newStub(t, "a", "m")
	c := config(Llama, a)
	c.Secret = trust.Secret("0123456789abcdef")
	for name, set := range map[string]func(){
		"a stock llama-server": func() { a.status = nil },
		"no secret":            func() { a.status = sharing("n", 256) },
		"another secret":       func() { a.status, a.secret = sharing("n", 256), trust.Secret("fedcba9876543210") },
	} {
		a.set(set)
		if rt, err := New(t.Context(), c); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				rt.Close()
			}
		}
	}
}

func TestSettingsThatMakeNoRouter(t *testing.T) {
	a := newStub(t, "a", "m")
	for name, change := range map[string]func(*Config){
		"surface":                  func(c *Config) { c.Surface = "other" },
		"policy":                   func(c *Config) { c.Policy = "best" },
		"two of one name":          func(c *Config) { c.Workers = append(c.Workers, c.Workers...) },
		"a time":                   func(c *Config) { c.Stall = 0 },
		"slots":                    func(c *Config) { c.Slots = 0 },
		"tenants without a secret": func(c *Config) { c.Keys = testKeys(t, "one k1\ntwo k2") },
		"a secret for Ollama":      func(c *Config) { c.Surface, c.Secret = Ollama, trust.Secret("0123456789abcdef") },
	} {
		c := config(Llama, a)
		change(&c)
		if rt, err := New(t.Context(), c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				rt.Close()
			}
		}
	}
	for _, bad := range []string{"", "x", "https://h", "http://h/p", "http://h?q", "a=", "a=b=http://h"} {
		if s, err := ParseSpec(bad); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v, %v", bad, s, err)
		}
	}
	if s, err := ParseSpec("http://[::1]:80/"); err != nil || s.ID != "[::1]:80" || s.URL.String() != "http://[::1]:80" {
		t.Error(s, err)
	}
}

// At the end, what runs is finished, what waits too, and nobody new is let in; what
// takes too long is broken off.
func TestDrain(t *testing.T) {
	for _, patient := range []bool{true, false} {
		a := newStub(t, "a", "m")
		release := make(chan struct{})
		a.slots, a.answer = 1, events(1, release)
		f := newFront(t, config(Llama, a))
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
		if err != nil {
			t.Fatal(err)
		}
		f.server.Close()
		f.server.URL = "http://" + l.Addr().String()
		ctx, end := cancelable(t)
		drain := wait
		if !patient {
			drain = 100 * time.Millisecond
		}
		served := make(chan error, 1)
		go func() { served <- f.router.Serve(ctx, l, drain) }()
		running := f.open("running")
		var queued sync.WaitGroup
		queued.Go(func() {
			got := f.complete("queued")
			if ok := got.status == http.StatusOK && strings.Contains(got.body, `"stop":true`); ok != patient {
				t.Errorf("patient %v: %v", patient, got)
			}
		})
		eventually(t, "one waits", func() bool { return f.router.fleet.status().Queue.Waiting == 1 })
		end()
		eventually(t, "nobody is let in", func() bool {
			conn, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // at once
			if err == nil {
				_ = conn.Close()
			}
			return err != nil
		})
		if patient {
			close(release)
		}
		rest, err := running.rest()
		if whole := strings.HasSuffix(rest, "\"stop\":true}\n\n"); whole != patient {
			t.Errorf("patient %v: %q, %v", patient, rest, err)
		}
		queued.Wait()
		if err := <-served; (err == nil) != patient {
			t.Errorf("patient %v: %v", patient, err)
		}
		if !patient {
			eventually(t, "the worker's request is cancelled", func() bool { return a.running.Load() == 0 })
		}
	}
}

func TestMetricsAndStatus(t *testing.T) {
	a := newStub(t, "a", "m")
	f := newFront(t, config(Llama, a))
	before := f.ask(http.MethodGet, "/ollamoon/metrics", "").body
	for _, name := range []string{
		`answers_total{status="2xx"} 0`, `answers_total{status="5xx"} 0`, `rejected_total{reason="busy"} 0`, `decisions_total{why="home"} 0`,
		`failures_total{worker="a"} 0`, `ejections_total{worker="a"} 0`, `retries_total 0`, `queue_seconds_count 0`, `first_byte_seconds_count 0`,
		`queue_length 0`, `worker_up{worker="a"} 1`, `worker_running{worker="a"} 0`, `worker_slots{worker="a"} 2`, `worker_tokens{phase="prefill",worker="a"} 0`,
	} {
		if !strings.Contains(before, "ollamoon_router_"+name+"\n") {
			t.Errorf("there is no %s in\n%s", name, before)
		}
	}
	a.set(func() {
		a.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Repeat("data: {}\n\n", 10)+"data: [DONE]\n\n")
		}
	})
	f.complete("x")
	f.ask(http.MethodPost, "/props", "{}")
	after := f.ask(http.MethodGet, "/ollamoon/metrics", "").body
	for _, name := range []string{
		`answers_total{status="2xx"} 2`, `answers_total{status="5xx"} 1`, `rejected_total{reason="refused"} 1`, `decisions_total{why="only"} 1`,
		`queue_seconds_count 1`, `first_byte_seconds_count 1`,
	} {
		if !strings.Contains(after, "ollamoon_router_"+name+"\n") {
			t.Errorf("there is no %s in\n%s", name, after)
		}
	}
	var s Status
	if err := json.Unmarshal([]byte(f.ask(http.MethodGet, "/ollamoon/status", "").body), &s); err != nil {
		t.Fatal(err)
	}
	if s.Surface != Llama || s.Policy != "least-time" || s.Costs.AnswerTokens != 12 || len(s.Workers) != 1 || s.Workers[0].URL != a.URL || s.Workers[0].Models[0] != "m" {
		t.Errorf("%+v", s)
	}
}
