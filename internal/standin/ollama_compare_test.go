package standin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ollamoon/internal/worker"
)

// An exchange is a request of Ollama's to a llama-server, and what was answered
// when it was recorded.
type exchange struct {
	Method          string
	Path            string
	Headers         map[string]string
	Request         string
	Status          int
	ResponseHeaders [][2]string `json:"response_headers"`
	Response        string
}

func exchanges(t *testing.T) (all []exchange) {
	t.Helper()
	for line := range bytes.Lines(recorded(t, "exchanges.jsonl")) {
		var e exchange
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// padded is an exchange whose text begins with another, of letters that need no
// escapes.
func (e exchange) padded(t *testing.T, text string) exchange {
	t.Helper()
	for _, field := range []string{`{"prompt":"`, `{"content":"`} {
		if rest, ok := strings.CutPrefix(e.Request, field); ok {
			return exchange{Method: e.Method, Path: e.Path, Headers: e.Headers, Request: field + text + rest}
		}
	}
	t.Fatalf("no text in %s", e.Request)
	return e
}

// request is an exchange of which only the request is known.
func request(path string, body any) exchange {
	text, ok := body.(string)
	if !ok {
		data, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		text = string(data)
	}
	return exchange{Method: http.MethodPost, Path: path, Headers: map[string]string{"Content-Type": "application/json"}, Request: text}
}

// An answered is an exchange's answer.
type answered struct {
	status int
	header http.Header
	length int64
	body   string
}

// send sends a request as Ollama does, which asks for the health before what
// computes.
func (r *runner) send(e exchange) answered {
	r.t.Helper()
	if health := r.health(); health != "ok" && health != "not responding" { // in 200 ms
		r.t.Errorf("its health is %q", health)
	}
	out, err := http.NewRequestWithContext(r.t.Context(), e.Method, r.address+e.Path, strings.NewReader(e.Request))
	if err != nil {
		r.t.Fatal(err)
	}
	for name, value := range e.Headers {
		out.Header.Set(name, value)
	}
	response, err := r.client.Do(out)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // a test
	var body bytes.Buffer
	if _, err := body.ReadFrom(response.Body); err != nil {
		r.t.Fatalf("%s breaks off: %v\n%s", e.Path, err, &body)
	}
	return answered{status: response.StatusCode, header: response.Header, length: response.ContentLength, body: body.String()}
}

// sendAll sends requests one after another to llama-servers at the same time.
func sendAll(all []exchange, to ...*runner) (answers [][]answered) {
	answers = make([][]answered, len(to))
	var servers sync.WaitGroup
	for i, r := range to {
		servers.Go(func() {
			for _, e := range all {
				answers[i] = append(answers[i], r.send(e))
			}
		})
	}
	servers.Wait()
	return answers
}

var (
	timePattern   = regexp.MustCompile(`"(?:prompt|predicted)_(?:ms|per_token_ms|per_second)":[^,}]+`)
	idPattern     = regexp.MustCompile(`"(id|created)":("[^"]*"|\d{9,})`)
	promptPattern = regexp.MustCompile(`"cache_n":(\d+),"prompt_n":(\d+)`)
	cachePattern  = regexp.MustCompile(`"cached_tokens":\d+`)
	slotPattern   = regexp.MustCompile(`"id_slot":\d+`)
)

// comparable is an answer's body without what is another in each run: ids and
// times. Of the prompt's tokens it has how many there were, and not how many of
// them were cached. Everything else stays, byte for byte.
func (a answered) comparable(slots int) string {
	body := timePattern.ReplaceAllString(a.body, `"time"`)
	body = idPattern.ReplaceAllString(body, `"$1"`)
	body = cachePattern.ReplaceAllString(body, `"cached"`)
	if slots > 1 {
		body = slotPattern.ReplaceAllString(body, `"slot"`)
	}
	return promptPattern.ReplaceAllStringFunc(body, func(s string) string {
		cached, computed := promptOf(s)
		return fmt.Sprintf(`"prompt":%d`, cached+computed)
	})
}

// promptOf is how many tokens of a prompt were cached, and computed.
func promptOf(body string) (cached, computed int) {
	if m := promptPattern.FindStringSubmatch(body); m != nil {
		cached, _ = strconv.Atoi(m[1])
		computed, _ = strconv.Atoi(m[2])
	}
	return cached, computed
}

// headers are an answer's, without those that say where its prompt was found.
func (a answered) headers() http.Header {
	h := maps.Clone(a.header)
	delete(h, worker.TokensHeader)
	delete(h, worker.TimingHeader)
	return h
}

// same checks that two llama-servers have answered the same.
func same(t *testing.T, what string, slots int, all []exchange, want, got []answered) {
	t.Helper()
	if len(want) != len(all) || len(got) != len(all) {
		t.Fatalf("%s: %d and %d answers to %d requests", what, len(want), len(got), len(all))
	}
	for i, e := range all {
		w, g := want[i], got[i]
		if w.status != g.status || w.length != g.length || !maps.EqualFunc(w.headers(), g.headers(), slices.Equal) {
			t.Errorf("%s, request %d %s: %d of %d bytes, %v\nof the engine alone %d of %d bytes, %v",
				what, i, e.Path, g.status, g.length, g.header, w.status, w.length, w.header)
		}
		wantEvents, gotEvents := strings.SplitAfter(w.comparable(slots), "\n\n"), strings.SplitAfter(g.comparable(slots), "\n\n")
		for n := range max(len(wantEvents), len(gotEvents)) {
			if w, g := at(wantEvents, n), at(gotEvents, n); w != g {
				t.Errorf("%s, request %d %s, part %d is\n%s\nof the engine alone\n%s", what, i, e.Path, n, g, w)
				break
			}
		}
	}
}

func at(parts []string, n int) string {
	if n < len(parts) {
		return parts[n]
	}
	return "(none)"
}

// asRecorded checks an answer against what was recorded.
func (e exchange) asRecorded(t *testing.T, got answered) {
	t.Helper()
	if got.status != e.Status || e.Response != "" && got.body != e.Response {
		t.Errorf("%s: %d %s, recorded %d %s", e.Path, got.status, got.body, e.Status, e.Response)
	}
	for _, h := range e.ResponseHeaders {
		if v := got.header.Values(h[0]); !slices.Equal(v, []string{h[1]}) {
			t.Errorf("%s: %s is %q, recorded %q", e.Path, h[0], v, h[1])
		}
	}
}
