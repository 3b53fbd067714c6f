package worker

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ollamoon/connector"
	"ollamoon/store"
	"ollamoon/store/breaker"
)

// Every token of a prompt has one source.
func TestSources(t *testing.T) {
	for name, c := range map[string]struct {
		before                  breakdown
		cached, computed, steps int
		want                    Tokens
	}{
		"cold":                           {breakdown{}, 0, 600, 0, Tokens{Computed: 600}},
		"cold, in steps":                 {breakdown{}, 512, 88, 512, Tokens{Computed: 600}},
		"in the slot":                    {breakdown{slot: 600}, 599, 1, 0, Tokens{Slot: 599, Computed: 1}},
		"with what the slot generated":   {breakdown{slot: 500}, 540, 60, 0, Tokens{Slot: 540, Computed: 60}},
		"remembered":                     {breakdown{slot: 10, memory: 600}, 599, 1, 0, Tokens{Memory: 599, Computed: 1}},
		"remembered, as was thought":     {breakdown{slot: 10, memory: 600}, 10, 590, 0, Tokens{Slot: 10, Computed: 590}},
		"loaded":                         {breakdown{slot: 10, memory: 300, store: 512}, 512, 88, 0, Tokens{Store: 512, Computed: 88}},
		"loaded, and in steps":           {breakdown{store: 512}, 1536, 64, 1024, Tokens{Store: 512, Computed: 1088}},
		"loaded, and not reused":         {breakdown{store: 512}, 0, 600, 0, Tokens{Computed: 600}},
		"in the slot, and in steps":      {breakdown{slot: 300}, 1024, 76, 724, Tokens{Slot: 300, Computed: 800}},
		"steps whose rows were lost":     {breakdown{}, 0, 600, 512, Tokens{Computed: 600}},
		"passed through, of an old slot": {breakdown{}, 70, 30, 0, Tokens{Slot: 70, Computed: 30}},
	} {
		got := c.before.sources(c.cached, c.computed, c.steps)
		if got != c.want || got.Slot+got.Memory+got.Store+got.Computed != c.cached+c.computed {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestEndpoint(t *testing.T) {
	for _, c := range []struct {
		method, path, want string
	}{
		{http.MethodPost, "/llm/completion", "/completion"},
		{http.MethodPost, "/llm/v1/responses", "/v1/responses"},
		{http.MethodGet, "/llm/completion", ""},
		{http.MethodPost, "/completion", ""},
		{http.MethodPost, "/llm/tokenize", ""},
	} {
		got, ok := Endpoint(httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil), "/llm")
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%s %s: %q, %v", c.method, c.path, got, ok)
		}
	}
	if paths := Endpoints(); !slices.IsSorted(paths) || len(paths) != len(predictions) {
		t.Errorf("%q", paths)
	}
}

// What was counted before a change of what is shared stays counted.
func TestCountsAddUp(t *testing.T) {
	a := connector.Stats{
		PagesLookedUp: 1, PagesHit: 2, BytesLoaded: 3, PagesPublished: 4, BytesPublished: 5, PagesDiscarded: 6, DiscardFailures: 7,
		Rejected: map[string]int64{"sum": 8},
	}
	b := a
	b.Rejected = map[string]int64{"sum": 1, "foreign": 2}
	want := connector.Stats{
		PagesLookedUp: 2, PagesHit: 4, BytesLoaded: 6, PagesPublished: 8, BytesPublished: 10, PagesDiscarded: 12, DiscardFailures: 14,
		Rejected: map[string]int64{"sum": 9, "foreign": 2},
	}
	if got := plus(a, b); !reflect.DeepEqual(got, want) || a.Rejected["sum"] != 8 {
		t.Errorf("%+v", got)
	}
	if got := plus(connector.Stats{}, connector.Stats{}); !reflect.DeepEqual(got, connector.Stats{}) {
		t.Errorf("%+v", got)
	}
}

// That an open breaker fails a call was said when it opened.
func TestOpenBreakersAreNotRepeated(t *testing.T) {
	var out bytes.Buffer
	w := &Worker{config: Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}}
	w.failed(t.Context(), "a prefix was not loaded", fmt.Errorf("looking up: %w", breaker.ErrOpen), "tokens", 512)
	if out.Len() > 0 {
		t.Errorf("said: %s", &out)
	}
	w.failed(t.Context(), "a prefix was not loaded", fmt.Errorf("looking up: %w", store.ErrUnavailable), "tokens", 512)
	if got := out.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "tokens=512") || !strings.Contains(got, "unavailable") {
		t.Errorf("said: %s", got)
	}
}

// A watcher is an observer that keeps what it is told.
type watcher struct {
	mu struct {
		sync.Mutex
		completions      []Completion
		saved, published int
	}
}

func (o *watcher) Completed(c Completion) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.completions = append(o.mu.completions, c)
}

func (o *watcher) Saved(took time.Duration, err error)     { o.count(&o.mu.saved, took, err) }
func (o *watcher) Published(took time.Duration, err error) { o.count(&o.mu.published, took, err) }

func (o *watcher) count(n *int, took time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil && took > 0 {
		*n++
	}
}

// all waits for so many completions, which are told of when their answers have
// gone, and returns them.
func (o *watcher) all(t *testing.T, n int) []Completion {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		o.mu.Lock()
		got := slices.Clone(o.mu.completions)
		o.mu.Unlock()
		if len(got) >= n {
			return got
		}
	}
	t.Fatalf("there are not %d completions", n)
	return nil
}

// watched puts another worker before a running engine, and a watcher on it.
func (r *running) watched() *watcher {
	r.t.Helper()
	config := r.worker.config
	o := &watcher{}
	config.Observer = o
	w, err := New(config)
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewServer(w)
	r.t.Cleanup(func() {
		server.Close()
		w.Close()
	})
	r.url, r.worker = server.URL, w
	return o
}
