package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/connector"
	"ollamoon/internal/engine"
	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/store"
	"ollamoon/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// PageTokens is how many tokens a page has in tests that do not choose.
const PageTokens = DefaultPageTokens

// boundary is that of pages of PageTokens.
func boundary(tokens int) int { return sharerOf(Sharing{}).boundary(tokens) }

// sharerOf is a sharer of pages of PageTokens, with nothing to share.
func sharerOf(s Sharing) *sharer {
	return &sharer{Sharing: &s, pageTokens: PageTokens, estimates: &estimates{}}
}

// gemmaWindow is the sliding window of the model that has one, in tokens.
const gemmaWindow = 512

// gemma are the arguments for a model that has a sliding window.
func gemma(t *testing.T, args ...string) []string {
	t.Helper()
	programs, err := engine.Find()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"-m", programs.Window}, args...)
}

// patience bounds what one request, or a start, may take on a busy machine.
const patience = 3 * time.Minute

// A running is a worker with its engine.
type running struct {
	t      *testing.T
	url    string
	engine *engine.Process
	worker *Worker
	folder string // of slot files
	tenant string // whose requests are
}

// slotFile reads a slot file.
func (r *running) slotFile(name string) []byte {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.folder, name))
	if err != nil {
		r.t.Fatal(err)
	}
	return data
}

// start starts a stock llama-server with a worker in front of it, which shares
// through s, or nothing when that is nil.
func start(t *testing.T, s store.Store, change func(*Sharing), args ...string) *running {
	t.Helper()
	programs, err := engine.Find()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	p, err := engine.Start(engine.Config{
		Binary: programs.Binary, Slots: folder,
		Args: engine.Arguments{
			Args: append([]string{"-m", programs.Model, "-ngl", "0", "-t", "2"}, args...),
			Env:  os.Environ(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(5 * time.Second) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	props, err := p.Props(ctx)
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		Engine: p.Client, Slots: props.TotalSlots, Context: props.Settings.ContextTokens, UBatch: 512,
		Remembered: 100_000,
		Logger:     slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if s != nil {
		window := 0
		if slices.Contains(args, programs.Window) {
			window = gemmaWindow
		}
		shape, err := engine.Calibrate(ctx, p.Client, folder, window)
		if err != nil {
			t.Fatal(err)
		}
		config.Sharing = &Sharing{
			Store: s, Role: connector.Mixed, Sealer: &page.Sealer{}, Shape: shape, Window: window, Ring: (window + 512) / PageTokens, Folder: folder, Deadline: patience, UBatch: 512,
			MaxSaving: 1e9, // whatever the machine is busy with
			Namespace: prefix.Namespace{Label: "smollm2", PageTokens: PageTokens, Geometry: shape.Sections[0].Geometry()},
		}
		if change != nil {
			change(config.Sharing)
		}
	}
	w, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(w)
	t.Cleanup(func() {
		server.Close()
		w.Close()
	})
	return &running{t: t, url: server.URL, engine: p, worker: w, folder: folder}
}

func newStore(t *testing.T) store.Store {
	t.Helper()
	s, err := memory.New(1 << 30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// An answer is what tests look at.
type answer struct {
	Content       string
	Timings       engine.Timings
	Probabilities json.RawMessage `json:"completion_probabilities"`
	Truncated     bool
	Error         json.RawMessage
	raw           []byte
}

// ask sends a request to /completion.
func (r *running) ask(body map[string]any) answer {
	r.t.Helper()
	var a answer
	a.raw = r.post("/completion", body)
	if err := json.Unmarshal(a.raw, &a); err != nil || a.Error != nil {
		r.t.Fatalf("answer %.500s: %v", a.raw, err)
	}
	r.worker.publishes.Wait()
	return a
}

func (r *running) post(path string, body map[string]any) []byte {
	r.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Tenant", r.tenant)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return got
}

// greedy asks for 16 greedy tokens with their five likeliest.
func greedy(prompt any) map[string]any {
	return map[string]any{"prompt": prompt, "n_predict": 16, "temperature": 0, "n_probs": 5, "cache_prompt": true}
}

// text is n words that the model has not much to say about.
func text(n int, seed string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d ", seed, i*7919%1000)
	}
	return b.String()
}

// tokens returns the first n tokens of a text.
func (r *running) tokens(seed string, n int) []int32 {
	r.t.Helper()
	all, err := r.engine.Tokenize(r.t.Context(), text(n, seed))
	if err != nil || len(all) < n {
		r.t.Fatalf("%d tokens of %d, %v", len(all), n, err)
	}
	return all[:n]
}
