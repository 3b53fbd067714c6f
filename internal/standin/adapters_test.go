package standin

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ollamoon/internal/engine/enginetest"
	"ollamoon/internal/metrics"
	"ollamoon/internal/worker"
)

// What an adapter or a control vector made is found only by those who apply the
// same ones, as strongly: in another process, and when a client changes an
// adapter's scale and changes it back.
func TestAdaptersAreApart(t *testing.T) {
	pages := "OLLAMOON_STORE=file:" + filepath.Join(t.TempDir(), "pages")
	adapter, vector := enginetest.Adapter(t), enginetest.ControlVector(t)
	text := prompt(45, "sheep")
	serve := func(args ...string) *running {
		return standing(t, pages).serve(t, model(t, append([]string{"--cache-ram", "0"}, args...)...)...)
	}
	end := func(r *running) {
		r.signal(syscall.SIGTERM)
		r.end()
	}
	scale := func(r *running, scale float64) string {
		t.Helper()
		before := r.status().Namespace
		code, body, _ := r.ask(http.MethodPost, "/lora-adapters", fmt.Sprintf(`[{"id":0,"scale":%g}]`, scale))
		if code != http.StatusOK {
			t.Fatalf("%d %s", code, body)
		}
		if s := r.status(); !s.Sharing || s.Namespace == before {
			t.Errorf("after a change the namespace is %s, before %s", s.Namespace, before)
		}
		return r.status().Namespace
	}
	found := func(r *running, want int, what string) completion {
		t.Helper()
		got := r.complete(text)
		if got.Timings.Cached != want {
			t.Errorf("%s: %d tokens found, want %d", what, got.Timings.Cached, want)
		}
		return got
	}

	r := serve("--lora", adapter, "--control-vector", vector)
	words, applied := r.status().NamespaceWords, r.status().Namespace
	if !strings.Contains(words, "lora sha256:") || !strings.Contains(words, "control vector sha256:") {
		t.Errorf("the namespace says %s", words)
	}
	cold := found(r, 0, "a new prompt")
	if n := cold.Timings.Computed; n < worker.DefaultPageTokens+64 || n > 2*worker.DefaultPageTokens {
		t.Fatalf("the prompt has %d tokens", n)
	}
	scale(r, 0)
	without := found(r, 0, "without the adapter")
	if back := scale(r, 1); back != applied {
		t.Errorf("changed back, the namespace is %s, before %s", back, applied)
	}
	if got := found(r, worker.DefaultPageTokens, "changed back"); got.Content != cold.Content {
		t.Errorf("changed back, the answer is %q, before %q", got.Content, cold.Content)
	}
	scale(r, 0)
	if got := found(r, worker.DefaultPageTokens, "without it again"); got.Content != without.Content {
		t.Errorf("without the adapter the answer is %q, before %q", got.Content, without.Content)
	}
	end(r)

	r = serve("--lora", adapter, "--control-vector-scaled", vector+":0.5")
	found(r, 0, "half the control vector")
	end(r)

	r = serve("--lora-scaled", adapter+":1", "--control-vector", vector)
	if got := found(r, worker.DefaultPageTokens, "another process"); got.Content != cold.Content {
		t.Errorf("another process answers %q, the first %q", got.Content, cold.Content)
	}
}

// A change of adapters that comes while sharing starts is one under sharing: the
// namespace is found out again.
func TestAdaptersChangeWhileSharingStarts(t *testing.T) {
	served := make(chan string, 1)
	by := func(name string) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served <- name })
	}
	s := &standIn{gate: &gate{direct: by("the engine")}, metrics: metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} })}
	s.gate.serve(s.passing())
	change := func() {
		s.gate.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/lora-adapters", strings.NewReader("[]")))
	}
	change()
	if by := <-served; by != "the engine" {
		t.Errorf("before, it is served by %s", by)
	}
	s.starting.Lock()
	go change()
	select {
	case by := <-served:
		t.Errorf("meanwhile it is served by %s", by)
	case <-time.After(50 * time.Millisecond):
	}
	s.sharer = by("who shares")
	s.starting.Unlock()
	if by := <-served; by != "who shares" {
		t.Errorf("afterwards it is served by %s", by)
	}
	s.announce = slog.New(slog.DiscardHandler)
	s.unshared(errors.New("a change has failed")) // and the next one may not
	change()
	if by := <-served; by != "who shares" {
		t.Errorf("after a change that has failed it is served by %s", by)
	}
}
