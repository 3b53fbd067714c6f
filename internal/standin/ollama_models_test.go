package standin

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// chat is a request as Ollama makes it for a model whose template it leaves to the
// llama-server.
func chat(messages []map[string]string, more map[string]any) exchange {
	body := map[string]any{
		"messages": messages, "stream": true, "cache_prompt": true, "n_predict": 8, "n_keep": 4, "temperature": 0, "top_k": 40, "top_p": 0.9,
		"min_p": 0, "stop": nil, "repeat_penalty": 1, "repeat_last_n": 64, "frequency_penalty": 0, "presence_penalty": 0, "typical_p": 1, "seed": 1,
	}
	for name, value := range more {
		body[name] = value
	}
	return request("/v1/chat/completions", body)
}

func says(role, content string) map[string]string {
	return map[string]string{"role": role, "content": content}
}

// truncated is a request whose prompt Ollama has cut to what a context holds, with
// four tokens of its beginning kept, and sends as tokens.
func (r *runner) truncated(e exchange, text string, size int) exchange {
	r.t.Helper()
	const keep = 4
	answer := r.send(request("/tokenize", map[string]any{"content": text, "add_special": true}))
	var got struct{ Tokens []int }
	if err := json.Unmarshal([]byte(answer.body), &got); err != nil || len(got.Tokens) < size {
		r.t.Fatalf("%d tokens, %v", len(got.Tokens), err)
	}
	limit := size - (size-keep)/2
	tokens, err := json.Marshal(slices.Concat(got.Tokens[:keep], got.Tokens[keep+len(got.Tokens)-limit:]))
	if err != nil {
		r.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(e.Request, `,"stream"`)
	e.Request = `{"prompt":` + string(tokens) + `,"stream"` + rest
	return e
}

// Four requests at once, chats by the model's template, prompts as tokens, and two
// models at once.
func TestOllamaParallel(t *testing.T) {
	alone, shared := ollamas(t)
	want, got := both(alone, shared, launch{model: blob(t), context: 768, parallel: 4, chat: true})
	sameLog(t, want, got)
	recorded := exchanges(t)
	first := recorded[1]
	system, user := says("system", prompt(42, "ox")), says("user", "Name a fruit.")
	schema := map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"}}
	tool := map[string]any{"type": "function", "function": map[string]any{"name": "look", "description": "Looks.", "parameters": schema}}
	all := []exchange{
		want.truncated(first, prompt(100, "wolf"), 768),
		chat([]map[string]string{system, user}, nil),
		chat([]map[string]string{says("system", prompt(20, "bear")), user}, map[string]any{"tools": []any{tool}}),
		chat([]map[string]string{user}, map[string]any{"logprobs": true, "top_logprobs": 3}),
		chat([]map[string]string{user}, map[string]any{
			"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "schema", "schema": schema}},
		}),
		chat([]map[string]string{says("system", "Count from one to ten.")}, nil), // no token of the answer is a close call
		chat([]map[string]string{}, nil),
		request("/apply-template", chat([]map[string]string{system, user}, map[string]any{"stream": false}).Request),
	}
	answers := sendAll(all, want, got)
	same(t, "with four slots", 4, all, answers[0], answers[1])
	if s := got.status(); s.Pages.PagesPublished == 0 || s.Slots.Total != 4 {
		t.Errorf("status %+v", s)
	}

	window := launch{model: installed(t).Window, context: 1024, parallel: 1}
	wantOther, gotOther := both(alone, shared, window)
	other := []exchange{first, first.padded(t, prompt(42, "fox"))}
	begin := prompt(40, "goat") // that all four have in common
	var clients sync.WaitGroup
	for _, i := range []int{1, 8, 11, 16} {
		clients.Go(func() { got.whole(recorded[i].padded(t, begin)) })
	}
	answers = sendAll(other, wantOther, gotOther)
	clients.Wait()
	same(t, "two models at once", 1, other, answers[0], answers[1])
	if s := got.status(); s.Slots.Free != 4 || s.Pages.PagesHit == 0 {
		t.Errorf("status %+v", s)
	}
	got.unload()
	gotOther.unload()
}

// whole checks that the answer to a request is.
func (r *runner) whole(e exchange) {
	r.t.Helper()
	a := r.send(e)
	var last struct {
		Stop      bool
		Type      string `json:"stop_type"`
		Evaluated int    `json:"tokens_evaluated"`
		Timings   struct {
			Cached    int `json:"cache_n"`
			Computed  int `json:"prompt_n"`
			Predicted int `json:"predicted_n"`
		}
	}
	events := strings.Split(strings.TrimSpace(a.body), "\n\n")
	err := json.Unmarshal([]byte(strings.TrimPrefix(events[len(events)-1], "data: ")), &last)
	if err != nil || a.status != http.StatusOK || !last.Stop || last.Type == "" || last.Evaluated < 300 || last.Timings.Cached+last.Timings.Computed != last.Evaluated {
		r.t.Errorf("%d %+v, %v\n%s", a.status, last, err, a.body)
	}
	if last.Type == "limit" && len(events) != last.Timings.Predicted+1 {
		r.t.Errorf("%d events of %d tokens", len(events), last.Timings.Predicted)
	}
}

// A model of embeddings is the engine's own.
func TestOllamaEmbeds(t *testing.T) {
	alone, shared := ollamas(t)
	alone.env = append(alone.env, "LLAMA_ARG_POOLING=mean")
	shared.env = append(shared.env, "LLAMA_ARG_POOLING=mean")
	want, got := both(alone, shared, launch{model: blob(t), context: 512, parallel: 1, embedding: true})
	all := []exchange{
		request("/v1/embeddings", map[string]any{"input": "Why is the sky blue?"}),
		request("/v1/embeddings", map[string]any{"input": prompt(8, "goat"), "embd_normalize": -1}),
		request("/v1/embeddings", map[string]any{"input": prompt(80, "pig")}), // too long
		request("/tokenize", map[string]any{"content": "Why is the sky blue?"}),
	}
	answers := sendAll(all, want, got)
	same(t, "embeddings", 1, all, answers[0], answers[1])
	if a := answers[1][0]; a.status != http.StatusOK || !strings.Contains(a.body, `"embedding":[`) {
		t.Errorf("%d %.200s", a.status, a.body)
	}
	if exe, err := os.Readlink("/proc/" + strconv.Itoa(got.cmd.Process.Pid) + "/exe"); err != nil || exe != resolved(t, installed(t).Binary) {
		t.Errorf("it runs %s, %v", exe, err)
	}
	got.unload()
}

// A model that cannot be loaded, and one that is unloaded while it is loaded.
func TestOllamaLoadsInVain(t *testing.T) {
	alone, shared := ollamas(t)
	broken := filepath.Join(t.TempDir(), "sha256-00")
	if err := os.WriteFile(broken, []byte("GGUF and nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	load := launch{model: broken, context: 1024, parallel: 1}
	wantFailed, failed := "", ""
	for range 10 { // an engine that ends at once may lose its last lines, by itself too
		want, got := alone.start(load), shared.start(load)
		if w, g := want.end(), got.end(); w != g {
			t.Errorf("it ends with %v, the engine with %v", g, w)
		}
		_, wantFailed = want.log.understood()
		if _, failed = got.log.understood(); failed == wantFailed && failed != "" {
			break
		}
	}
	if failed != wantFailed || failed == "" {
		t.Errorf("Ollama understands %q, of the engine alone %q", failed, wantFailed)
	}

	load.model = blob(t)
	killed := shared.start(load)
	for deadline := time.Now().Add(wait); len(descendants(killed.cmd.Process.Pid)) == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	killed.unload()
}

// begin sends a request and returns its answer when it has begun.
func (r *runner) begin(e exchange) io.ReadCloser {
	r.t.Helper()
	out, err := http.NewRequestWithContext(r.t.Context(), e.Method, r.address+e.Path, strings.NewReader(e.Request))
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := r.client.Do(out)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
		r.t.Error(err)
	}
	return response.Body
}
