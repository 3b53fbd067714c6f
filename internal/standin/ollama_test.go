package standin

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ollamoon/internal/worker"
)

// ollamas are an Ollama with the stock llama-server, and one with the stand-in,
// which shares by a folder.
func ollamas(t *testing.T) (alone, shared ollama) {
	t.Helper()
	return ollamaWith(t, ""), ollamaWith(t, "store: file:"+filepath.Join(t.TempDir(), "pages")+"\n")
}

// blob is the model among Ollama's blobs, by its digest.
func blob(t *testing.T) string {
	t.Helper()
	name := filepath.Base(commandLine(t, loadLine)[1])
	path := filepath.Join(t.TempDir(), "blobs", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(installed(t).Model, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// both loads a model by two Ollamas.
func both(alone, shared ollama, l launch) (want, got *runner) {
	var loads sync.WaitGroup
	loads.Go(func() { want = alone.load(l) })
	loads.Go(func() { got = shared.load(l) })
	loads.Wait()
	return want, got
}

// animals are words of which no two begin alike, so that prompts that begin with
// them have no token in common.
var animals = []string{"goat", "pig", "hen", "cow", "duck", "cat", "dog", "sheep", "lion", "mouse"}

// What Ollama asks of a llama-server before and while it serves a model it gets
// from the stand-in as from the engine: devices, its health, what memory it takes;
// and all answers that were recorded, as they were and behind two pages of text,
// from a new slot and, after an unload and a reload, out of the store.
func TestOllama(t *testing.T) {
	alone, shared := ollamas(t)
	wantSystem, wantDevices := alone.discover()
	system, devices := shared.discover()
	if system != wantSystem || devices != wantDevices || !strings.Contains(system, "system_info:") || !strings.Contains(devices, "Available devices") {
		t.Errorf("devices\n%s\n%s\nof the engine alone\n%s\n%s", system, devices, wantSystem, wantDevices)
	}

	load := launch{model: blob(t), context: 4096, parallel: 1}
	want, got := both(alone, shared, load)
	if s := got.statuses; len(slices.Compact(slices.Sorted(slices.Values(s)))) != len(s) || !slices.IsSortedFunc(s, loading) {
		t.Errorf("its health was %v", s)
	}
	if s := got.status(); !s.Sharing || s.Pages.PagesLookedUp != 0 { // a load without a prompt
		t.Fatalf("status %+v", s)
	}

	all := exchanges(t)
	answers := sendAll(all, want, got)
	same(t, "as recorded", 1, all, answers[0], answers[1])
	for i, e := range all {
		e.asRecorded(t, answers[1][i])
	}
	more := unusual(all)
	answers = sendAll(more, want, got)
	same(t, "unusual", 1, more, answers[0], answers[1])

	long, pages := paddedExchanges(t, all)
	answers = sendAll(long, want, got)
	same(t, "padded", 1, long, answers[0], answers[1])
	sameLog(t, want, got)
	total := 0
	for _, n := range pages {
		total += n
	}
	got.published(int64(total + 1)) // and a page of an unusual one
	want.unload()
	got.unload()
	foundAgain(t, shared.load(load), long, pages, answers[0])
}

// paddedExchanges are exchanges behind a text, those of one prompt behind the
// same, and how many pages each completion is to be found by.
func paddedExchanges(t *testing.T, all []exchange) (long []exchange, pages map[int]int) {
	t.Helper()
	words := map[int]int{1: 42, 2: 73, 3: 110} // by pages, with 64 tokens more and the shortest of prompts
	pages = map[int]int{}
	for i, e := range all {
		n := 1
		switch {
		case os.Getenv("OLLAMOON_FULL") == "1":
			n = 3
		case strings.Contains(e.Request, "json_schema"), strings.Contains(e.Request, "n_probs"):
			n = 2
		}
		if e.Path == "/completion" {
			pages[i] = n
		}
		long = append(long, e.padded(t, prompt(words[n], animals[i/2])))
	}
	return long, pages
}

// foundAgain checks that a stand-in that has just been loaded answers out of the
// store as an engine alone does that computes, and that all it says of that is
// true. Then it is killed in the middle of an answer.
func foundAgain(t *testing.T, r *runner, all []exchange, pages map[int]int, want []answered) {
	t.Helper()
	total := 0
	for i, n := range pages {
		got := sendAll(all[i:i+1], r)[0]
		same(t, fmt.Sprint("from the store, exchange ", i), 1, all[i:i+1], want[i:i+1], got)
		cached, _ := promptOf(got[0].body)
		if v := got[0].header.Get(worker.TokensHeader); cached != n*worker.DefaultPageTokens || v != fmt.Sprintf("store=%d", cached) {
			t.Errorf("exchange %d: %d tokens were cached, and %q", i, cached, v)
		}
		total += n
	}
	if s := r.status(); s.Pages.PagesHit != int64(total) {
		t.Errorf("status %+v", s)
	}
	r.metrics(map[string]float64{"hit_tokens_total": float64(total * worker.DefaultPageTokens)})
	endless := all[1]
	endless.Request = strings.Replace(endless.Request, `"n_predict":12`, `"n_predict":1000`, 1)
	answer := r.begin(endless)
	defer answer.Close() //nolint:errcheck // a test
	r.unload()
	if rest, err := io.ReadAll(answer); err == nil {
		t.Errorf("an answer was not broken off: %s", rest)
	}
}

// loading orders the states of a llama-server that is being loaded.
func loading(a, b string) int {
	order := []string{"not responding", "loading model", "ok"}
	return slices.Index(order, a) - slices.Index(order, b)
}

// unusual are requests that Ollama makes of what its users send by mistake or
// seldom: no prompt, only what a system says, a grammar or a schema that is none.
func unusual(all []exchange) (more []exchange) {
	first := all[1]
	with := func(old, replacement string) {
		more = append(more, exchange{Method: first.Method, Path: first.Path, Headers: first.Headers, Request: strings.Replace(first.Request, old, replacement, 1)})
	}
	_, rest, _ := strings.Cut(first.Request, `","stream"`)
	whole := strings.TrimSuffix(first.Request, rest)
	with(whole, `{"prompt":"","stream"`)
	with(whole, `{"prompt":"<|im_start|>system\nYou are brief.<|im_end|>\n<|im_start|>assistant\n","stream"`)
	with(`"seed":1`, `"seed":1,"grammar":"root ::= ("`)
	with(`"seed":1`, `"seed":1,"json_schema":{"type":"nothing"}`)
	with(`"seed":1`, `"seed":1,"json_schema":"json"`)
	with(`"n_predict":12`, `"n_predict":1`)
	with(`"n_predict":12`, `"n_predict":"12"`)
	long := prompt(42, "wolf")
	with(`{"prompt":"`, `{"prompt":"`+long+`","grammar":"root ::= (","x":"`)
	more = append(more, request("/detokenize", `{"tokens":[1,4093,198,27302,7170]}`), request("/tokenize", `{"content":"a`))
	return more
}
