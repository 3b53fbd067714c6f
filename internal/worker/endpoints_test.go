package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// template shows all that a chat may have: tools, calls of them, thinking.
const template = `{%- if tools %}{{ tools | tojson }}{% endif %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}
{%- if m.reasoning_content %}{{ '<think>' + m.reasoning_content + '</think>' }}{% endif %}
{%- if m.content %}{{ m.content }}{% endif %}
{%- if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// An object is a JSON object.
type object = map[string]any

// TestEndpoints holds what the endpoints answer against the engine alone, each
// time from empty slots.
func TestEndpoints(t *testing.T) {
	r := start(t, newStore(t), nil, "-c", "3072", "-np", "2", "-no-kvu", "--cache-ram", "0", "--jinja", "--chat-template", template,
		// These tokens make an infill of a model that has none.
		"--override-kv", "tokenizer.ggml.fim_pre_token_id=int:3,tokenizer.ggml.fim_suf_token_id=int:4,tokenizer.ggml.fim_mid_token_id=int:5")
	for _, c := range []struct {
		name string
		run  func(r *running)
	}{
		{"shared", (*running).sharedEndpoints},
		{"passed through", (*running).passedThrough},
		{"past the context", (*running).pastTheContext},
		{"stop strings", (*running).stopStrings},
		{"characters of several tokens", (*running).wideCharacters},
		{"one terminal object", (*running).terminalObjects},
		{"a clock in the prompt", (*running).clocks},
		{"with and without thinking", (*running).thinking},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(r.in(t)) })
	}
}

// in is the same for another test.
func (r *running) in(t *testing.T) *running {
	other := *r
	other.t = t
	return &other
}

// story is a text that the model knows how to continue.
func story(sentences int, about string) string {
	var b strings.Builder
	for i := range sentences {
		fmt.Fprintf(&b, "Here comes %s number %d. ", about, i)
	}
	return b.String()
}

// An exchange is an answer with its header.
type exchange struct {
	header http.Header
	body   []byte
	status int
}

// alone asks the engine itself, with empty slots.
func (r *running) alone(path string, body object) exchange {
	r.t.Helper()
	r.fresh(0)
	return r.send(r.engine.HTTP, "http://engine"+path, body)
}

// through asks the worker, with empty slots, and waits for what it publishes.
func (r *running) through(path string, body object) exchange {
	r.t.Helper()
	r.fresh(0)
	e := r.send(http.DefaultClient, r.url+path, body)
	r.worker.publishes.Wait()
	return e
}

func (r *running) send(client *http.Client, url string, body any) exchange {
	r.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return exchange{response.Header, got, response.StatusCode}
}

var varying = regexp.MustCompile(`"timings":\{[^{}]*\}|"(id|item_id)":"[^"]*"|"(created|created_at|completed_at|id_slot|cached_tokens)":\d+|` +
	`"cache_read_input_tokens":\d+,"input_tokens":\d+`)

// said is an answer without ids, times and figures of the cache.
func (e exchange) said() string {
	return fmt.Sprint(e.status, " ", varying.ReplaceAllString(string(e.body), "_"))
}

// cached and computed are an answer's figures.
func (r *running) figures(e exchange) (cached, computed int) {
	r.t.Helper()
	cached, computed, ok := timingsOf(e.body)
	if !ok {
		r.t.Fatalf("no figures in %.500s", e.body)
	}
	return cached, computed
}

func with(body object, fields ...any) object {
	out := object{}
	for name, value := range body {
		out[name] = value
	}
	for i := 0; i < len(fields); i += 2 {
		out[fields[i].(string)] = fields[i+1]
	}
	return out
}

func message(role string, content any) object { return object{"role": role, "content": content} }

func part(kind, text string) object { return object{"type": kind, "text": text} }

// sharedRequests are requests of each endpoint that is shared.
func (r *running) sharedRequests() map[string]struct {
	path string
	body object
} {
	schema := object{"type": "object", "properties": object{"city": object{"type": "string"}}}
	mixed := []any{1, 2, story(46, "goat"), 28120, " Here comes"}
	return map[string]struct {
		path string
		body object
	}{
		"text":                   {"/completion", object{"prompt": story(46, "sheep")}},
		"tokens":                 {"/completions", object{"prompt": r.tokens("t", 350)}},
		"text and tokens":        {"/completion", object{"prompt": mixed}},
		"a list with one prompt": {"/v1/completions", object{"prompt": []string{story(46, "cow")}}},
		"chat": {"/v1/chat/completions", object{
			"messages": []object{message("system", story(46, "duck")), message("user", []object{part("text", "Go "), part("text", "on.")})},
			"tools":    []object{{"type": "function", "function": object{"name": "weather", "parameters": schema}}},
		}},
		"messages": {"/v1/messages", object{
			"system": []object{
				part("text", "x-anthropic-billing-header: cc_version=2; cch=a5145;"),
				{"type": "text", "text": story(20, "pig"), "cache_control": object{"type": "ephemeral"}},
			},
			"messages": []object{
				message("user", "What is it like in Rome?"),
				message("assistant", []object{
					{"type": "thinking", "thinking": "I have to look."},
					part("text", "I look."),
					{"type": "tool_use", "id": "t1", "name": "weather", "input": object{"city": "Rome"}},
				}),
				message("user", []object{
					{"type": "tool_result", "tool_use_id": "t1", "content": []object{part("text", "It "), part("text", "rains.")}},
					{"type": "tool_result", "tool_use_id": "t2", "content": "It pours."},
					part("text", story(10, "horse")),
				}),
			},
			"tools":       []object{{"name": "weather", "description": "of a city", "input_schema": schema}},
			"tool_choice": object{"type": "auto"},
		}},
		"responses": {"/v1/responses", object{
			"instructions": story(25, "hen"),
			"input": []object{
				{"role": "user", "content": "What is it like in Rome?"},
				{"type": "message", "role": "assistant", "content": []object{part("output_text", "I look.")}},
				{"type": "function_call", "call_id": "t1", "name": "weather", "arguments": `{"city":"Rome"}`},
				{"type": "function_call_output", "call_id": "t1", "output": "It rains."},
				{"role": "user", "content": []object{part("input_text", story(12, "dog"))}},
			},
			"tools": []object{{"type": "function", "name": "weather", "parameters": schema}, {"type": "web_search"}},
		}},
	}
}

// What one publishes another finds, whatever the endpoint: the answer is the
// engine's own, streamed and not, and says how much was found.
func (r *running) sharedEndpoints() {
	for name, q := range r.sharedRequests() {
		r.t.Run(name, func(t *testing.T) {
			r := r.in(t)
			limit := 6
			body := with(q.body, "temperature", 0, "n_predict", limit, "max_tokens", limit, "max_output_tokens", limit)
			streamed := with(body, "stream", true)
			want := map[bool]string{false: r.alone(q.path, body).said(), true: r.alone(q.path, streamed).said()}

			first := r.through(q.path, body)
			if got := first.said(); got != want[false] {
				t.Errorf("computed, the answer is\n%s\nthe engine's is\n%s", got, want[false])
			}
			cached, tokens := r.figures(first)
			if cached != 0 || tokens%PageTokens < minBatch || tokens < PageTokens {
				t.Fatalf("%d tokens cached, %d computed", cached, tokens)
			}
			for stream, body := range map[bool]object{false: body, true: streamed} {
				again := r.through(q.path, body)
				if got := again.said(); got != want[stream] {
					t.Errorf("loaded, streamed %v, the answer is\n%s\nthe engine's is\n%s", stream, got, want[stream])
				}
				found := tokens / PageTokens * PageTokens
				if cached, computed := r.figures(again); cached != found || cached+computed != tokens {
					t.Errorf("streamed %v, it says %d tokens cached and %d computed of %d, want %d", stream, cached, computed, tokens, found)
				}
				if got, want := again.header.Get(TokensHeader), fmt.Sprintf("store=%d", found); got != want {
					t.Errorf("streamed %v, the header says %q, want %q", stream, got, want)
				}
			}
		})
	}
}

// What is not shared is answered as by the engine alone, and asks the store
// nothing.
func (r *running) passedThrough() {
	long := story(36, "bear")
	image := object{"type": "image_url", "image_url": object{"url": "data:image/png;base64,aaaa"}}
	for name, q := range map[string]struct {
		path string
		body object
	}{
		"infill":            {"/infill", object{"input_prefix": long, "input_suffix": " It is the last.", "input_extra": []object{{"text": "x", "filename": "y"}}}},
		"several prompts":   {"/completion", object{"prompt": []string{long, "A wolf."}}},
		"several by tokens": {"/v1/completions", object{"prompt": [][]int32{r.tokens("u", 260), {1, 2, 3}}}},
		"several answers":   {"/v1/chat/completions", object{"messages": []object{message("user", long)}, "n": 2}},
		"an image":          {"/v1/chat/completions", object{"messages": []object{message("user", []object{part("text", long), image})}}},
		"an image of a message": {"/v1/messages", object{"messages": []object{message("user", []object{
			part("text", long), {"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": "aaaa"}},
		})}}},
		"media of a prompt":        {"/completion", object{"prompt": object{"prompt_string": long + "<__media__>", "multimodal_data": []string{"aaaa"}}}},
		"no cache wanted":          {"/completion", object{"prompt": long, "cache_prompt": false}},
		"adapters of its own":      {"/completion", object{"prompt": long, "lora": []object{{"id": 0, "scale": 1}}}},
		"an input of other things": {"/v1/responses", object{"input": []object{message("user", []object{part("input_file", long)})}}},
		"shorter than a page":      {"/completion", object{"prompt": story(20, "fox")}},
	} {
		r.t.Run(name, func(t *testing.T) {
			r := r.in(t)
			body := with(q.body, "temperature", 0, "n_predict", 4, "max_tokens", 4)
			want, before := r.alone(q.path, body), r.worker.Status().Pages
			got := r.through(q.path, body)
			if got.said() != want.said() {
				t.Errorf("the answer is\n%s\nthe engine's is\n%s", got.said(), want.said())
			}
			if after := r.worker.Status().Pages; fmt.Sprint(after) != fmt.Sprint(before) || got.header.Get(TokensHeader) != "" {
				t.Errorf("it was shared: %+v, before %+v", after, before)
			}
		})
	}
}

// A prompt that does not fit into a slot is refused as the engine refuses it, which
// says how many tokens there are and how many fit: nothing is cut in silence, looked
// up or published.
func (r *running) pastTheContext() {
	long := "The password is heron. " + story(300, "crane") + "What is the password?"
	chat := object{"messages": []object{message("user", long)}}
	for path, body := range map[string]object{
		"/completion": {"prompt": long}, "/v1/completions": {"prompt": long},
		"/v1/chat/completions": chat, "/v1/messages": chat, "/v1/responses": {"input": long},
	} {
		r.t.Run(path, func(t *testing.T) {
			r := r.in(t)
			body := with(body, "temperature", 0, "n_predict", 4, "max_tokens", 4)
			want, before := r.alone(path, body), r.worker.Status().Pages
			if want.status != http.StatusBadRequest || !bytes.Contains(want.body, []byte("context size")) {
				t.Fatalf("the engine says %s", want.said())
			}
			if got := r.through(path, body); got.said() != want.said() {
				t.Errorf("the answer is\n%s\nthe engine's is\n%s", got.said(), want.said())
			}
			if after := r.worker.Status().Pages; fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("it was shared: %+v, before %+v", after, before)
			}
		})
	}
}
