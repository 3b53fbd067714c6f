package router

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"ollamoon/internal/trust"
)

// An exchange with an Ollama server, in the form of its documented surface.
type exchange struct {
	Method, Path, Request string
	Status                int
	Type, Response        string
}

// In front of Ollama nothing of its surface changes: what a client sends arrives
// byte for byte, what the server answers comes back so.
func TestOllamaIsUnchanged(t *testing.T) {
	data, err := os.ReadFile("testdata/ollama.json")
	if err != nil {
		t.Fatal(err)
	}
	var exchanges []exchange
	if err := json.Unmarshal(data, &exchanges); err != nil {
		t.Fatal(err)
	}
	a, b := newStub(t, "a", "smollm2:135m"), newStub(t, "b", "smollm2:135m")
	f := newFront(t, config(Ollama, a, b))
	for _, e := range exchanges {
		answer := func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", e.Type)
			w.WriteHeader(e.Status)
			for line := range strings.Lines(e.Response) {
				_, _ = io.WriteString(w, line)
				_ = http.NewResponseController(w).Flush()
			}
		}
		a.set(func() { a.answer, a.requests = answer, nil })
		b.set(func() { b.answer, b.requests = answer, nil })
		got := f.ask(e.Method, e.Path, e.Request, "X-Any", "header", "Content-Type", "application/json")
		if got.status != e.Status || got.body != e.Response || got.header.Get("Content-Type") != e.Type || got.err != nil {
			t.Errorf("%s %s %s: %d %s %q, %v; want %d %s %q",
				e.Method, e.Path, e.Request, got.status, got.header.Get("Content-Type"), got.body, got.err, e.Status, e.Type, e.Response)
		}
		arrived := append(a.got(), b.got()...)
		if len(arrived) != 1 || arrived[0].body != e.Request || arrived[0].path != e.Path || arrived[0].header.Get("X-Any") != "header" {
			t.Errorf("%s %s %s: %+v arrived", e.Method, e.Path, e.Request, arrived)
		}
	}
	f.idle()
}

// A request goes only to servers that have its model.
func TestOllamaModels(t *testing.T) {
	a, b := newStub(t, "a", "llama3.2:latest", "both:1b"), newStub(t, "b", "both:1b", "hf.co/Org/Model:Q4")
	f := newFront(t, config(Ollama, a, b))
	for model, want := range map[string]string{
		"llama3.2": "a", "LLAMA3.2:latest": "a", "library/llama3.2": "a", "registry.ollama.ai/library/llama3.2:latest": "a",
		"hf.co/org/model:q4": "b", "both:1b": "ab", "nobody:7b": "ab", "": "ab",
	} {
		for i := range 6 {
			body := fmt.Sprintf(`{"model":%q,"prompt":"%d"}`, model, i)
			if got := f.ask(http.MethodPost, "/api/generate", body); got.status != http.StatusOK || !strings.Contains(want, got.body) {
				t.Errorf("%s: %v", model, got)
			}
		}
	}
	if got := f.ask(http.MethodPost, "/api/show", `{"name":"llama3.2"}`); got.body != "a" {
		t.Error(got)
	}
	if got := f.ask(http.MethodGet, "/v1/models/llama3.2", ""); got.body != "a" {
		t.Error(got)
	}
	a.set(func() { a.models = append(a.models, "new:1b") }) // pulled meanwhile
	eventually(t, "the new model is known", func() bool {
		return f.ask(http.MethodPost, "/api/generate", `{"model":"new:1b"}`).body == "a"
	})
	f.state("b", stateHealthy)
}

func TestMergedLists(t *testing.T) {
	a, b := newStub(t, "a", "one", "both"), newStub(t, "b", "both", "two")
	f := newFront(t, config(Ollama, a, b))
	var tags struct {
		Models []struct{ Name, Owner string }
	}
	got := f.ask(http.MethodGet, "/api/tags", "")
	if err := json.Unmarshal([]byte(got.body), &tags); err != nil || fmt.Sprint(tags.Models) != "[{one a} {both a} {two b}]" {
		t.Error(got, err)
	}
	var models struct {
		Object string
		Data   []struct{ ID string }
	}
	got = f.ask(http.MethodGet, "/v1/models", "")
	if err := json.Unmarshal([]byte(got.body), &models); err != nil || models.Object != "list" || fmt.Sprint(models.Data) != "[{one} {both} {two}]" {
		t.Error(got, err)
	}
	ps := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }
	}
	a.set(func() { a.answer = ps(` {"models": []} `) })
	b.set(func() { b.answer = ps(`{"models":[{"name":"two","model":"two"}]}`) })
	if got = f.ask(http.MethodGet, "/api/ps", ""); got.body != `{"models":[{"name":"two","model":"two"}]}` {
		t.Error(got)
	}
	b.set(func() { b.answer = ps(`{"models":[]}`) })
	if got = f.ask(http.MethodGet, "/api/ps", ""); got.body != ` {"models": []} ` {
		t.Error("it is not the server's own:", got)
	}
	b.set(func() { b.answer = ps(`no list`) })
	if got = f.ask(http.MethodGet, "/api/ps", ""); got.body != ` {"models": []} ` {
		t.Error(got)
	}
}

// What changes one server is refused, in the words of the surface.
func TestRefusedPaths(t *testing.T) {
	a := newStub(t, "a", "m")
	f := newFront(t, config(Ollama, a))
	for _, what := range []string{"POST /api/pull", "POST /api/push", "POST /api/create", "POST /api/copy", "DELETE /api/delete", "POST /api/blobs/sha256:1"} {
		method, path, _ := strings.Cut(what, " ")
		got := f.ask(method, path, "{}")
		if got.status != http.StatusNotImplemented || !strings.HasPrefix(got.body, `{"error":"`+what+" changes one server") {
			t.Error(what, got)
		}
	}
	l := newFront(t, config(Llama, a))
	for _, what := range []string{"POST /slots/0?action=save", "POST /props", "POST /lora-adapters"} {
		method, path, _ := strings.Cut(what, " ")
		if got := l.ask(method, path, "{}"); got.status != http.StatusNotImplemented || !strings.Contains(got.body, `"type":"not_supported_error"`) {
			t.Error(what, got)
		}
	}
	if a.served.Load() != 0 {
		t.Error("they reached a server")
	}
}

// Several models behind llama-server's surface: the name decides, and without one
// the first model answers.
func TestLlamaModels(t *testing.T) {
	a, b := newStub(t, "a", "one"), newStub(t, "b", "two")
	f := newFront(t, config(Llama, a, b))
	for body, want := range map[string]string{`{"model":"one"}`: "a", `{"model":"two"}`: "b", `{}`: "a", `no JSON`: "a"} {
		for range 4 {
			if got := f.ask(http.MethodPost, "/v1/chat/completions", body); got.body != want {
				t.Error(body, got)
			}
			if got := f.ask(http.MethodPost, "/tokenize", body); got.body != want {
				t.Error(body, got)
			}
		}
	}
	got := f.ask(http.MethodPost, "/v1/chat/completions", `{"model":"three"}`)
	if got.status != http.StatusNotFound || !strings.Contains(got.body, `no worker has the model \"three\"; there are [\"one\" \"two\"]`) {
		t.Error(got)
	}
	one := newFront(t, config(Llama, a)) // as a llama-server, which answers to any name
	if got := one.ask(http.MethodPost, "/v1/chat/completions", `{"model":"gpt-4"}`); got.body != "a" {
		t.Error(got)
	}
}

// Paths, queries and headers arrive as they are, but for what is between router
// and worker.
func TestRequestsArriveAsTheyAre(t *testing.T) {
	a := newStub(t, "a", "m")
	f := newFront(t, config(Llama, a))
	f.ask(http.MethodPost, "/any%2Fpath/x?a=1;b=%20&c", "\x00body", "X-Api-Key", "k", "User-Agent", "me", trust.TenantHeader, "root", "Ollamoon-X", "y")
	got := a.got()
	if len(got) != 1 || got[0].path != "/any%2Fpath/x?a=1;b=%20&c" || got[0].body != "\x00body" {
		t.Fatalf("%+v", got)
	}
	h := got[0].header
	if h.Get("X-Api-Key") != "k" || h.Get("User-Agent") != "me" || h.Get(trust.TenantHeader) != "" || h.Get("Ollamoon-X") != "" || h.Get("X-Forwarded-For") != "" {
		t.Errorf("%v", h)
	}
}
