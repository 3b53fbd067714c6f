package worker

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"testing"
)

func TestCorrection(t *testing.T) {
	fix := correction{tokens: 512, ms: 1000}
	for name, c := range map[string]struct{ in, want string }{
		"timings": {
			`{"content":"x","timings":{"cache_n":599,"prompt_n":1,"prompt_ms":15.5,"prompt_per_token_ms":15.5,"prompt_per_second":64.5,"predicted_n":4}}`,
			`{"content":"x","timings":{"cache_n":87,"prompt_n":513,"prompt_ms":1015.5,"prompt_per_token_ms":1.9795321637426901,"prompt_per_second":505.1698670605613,"predicted_n":4}}`,
		},
		"cached tokens": {
			`{"usage":{"prompt_tokens":600,"prompt_tokens_details":{"cached_tokens":599}}}`,
			`{"usage":{"prompt_tokens":600,"prompt_tokens_details":{"cached_tokens":87}}}`,
		},
		"Anthropic": {
			`{"usage":{"cache_read_input_tokens":599,"input_tokens":1,"output_tokens":4}}`,
			`{"usage":{"cache_read_input_tokens":87,"input_tokens":513,"output_tokens":4}}`,
		},
		"text that quotes the fields": {
			`{"content":"\"timings\":{\"cache_n\":599} {\"cached_tokens\":599}"}`,
			`{"content":"\"timings\":{\"cache_n\":599} {\"cached_tokens\":599}"}`,
		},
		"an event without figures": {"data: {\"content\":\"a\"}\n\n", "data: {\"content\":\"a\"}\n\n"},
	} {
		if got := string(fix.apply([]byte(c.in))); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
		if got := string(correction{}.apply([]byte(c.in))); got != c.in {
			t.Errorf("%s: changed without a step: %s", name, got)
		}
	}
}

func TestTimingsOf(t *testing.T) {
	for in, want := range map[string][2]int{
		`{"timings":{"cache_n":599,"prompt_n":1,"prompt_ms":15.5}}`:                   {599, 1},
		`{"usage":{"cache_read_input_tokens":3,"input_tokens":15,"output_tokens":4}}`: {3, 15},
	} {
		cached, computed, ok := timingsOf([]byte(in))
		if !ok || cached != want[0] || computed != want[1] {
			t.Errorf("%s: %d, %d, %t", in, cached, computed, ok)
		}
	}
	if _, _, ok := timingsOf([]byte(`{"content":"\"timings\":{}"}`)); ok {
		t.Error("figures out of a text")
	}
}

func TestWithField(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`:     `{"a":1,"id_slot":2}`,
		" {\n}":       " {\n\"id_slot\":2}",
		`{}`:          `{"id_slot":2}`,
		"{ \"a\":1 }": `{ "a":1 ,"id_slot":2}`,
		`[1]`:         `[1]`,
	} {
		if got := string(withField([]byte(in), `"id_slot":2`)); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// A body whose figures are put right keeps a length, its own; a stream goes on at
// once and has none.
func TestCorrectedAnswersKeepTheirLength(t *testing.T) {
	const body = `{"content":"x","timings":{"cache_n":599,"prompt_n":1,"prompt_ms":15.5}}`
	const right = `{"content":"x","timings":{"cache_n":87,"prompt_n":513,"prompt_ms":1015.5}}`
	for name, c := range map[string]struct {
		kind, length string
		fix          correction
		want         string
		wantLength   int64
	}{
		"a body":             {"application/json", strconv.Itoa(len(body)), correction{tokens: 512, ms: 1000}, right, int64(len(right))},
		"a body as it is":    {"application/json", strconv.Itoa(len(body)), correction{}, body, int64(len(body))},
		"of unknown length":  {"application/json", "", correction{tokens: 512, ms: 1000}, right, -1},
		"a stream":           {"text/event-stream", "", correction{tokens: 512, ms: 1000}, right, -1},
		"a body of no bytes": {"application/json", "0", correction{tokens: 512, ms: 1000}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				if c.length != "" {
					w.Header().Set("Content-Length", c.length)
				}
				w.WriteHeader(http.StatusBadRequest)
				if c.length != "0" {
					_ = http.NewResponseController(w).Flush()
					_, _ = io.WriteString(w, body)
				}
			}))
			defer engine.Close()
			to, err := url.Parse(engine.URL)
			if err != nil {
				t.Fatal(err)
			}
			forward := httputil.NewSingleHostReverseProxy(to)
			forward.FlushInterval = -1
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen := &corrector{ResponseWriter: w, fix: c.fix}
				forward.ServeHTTP(seen, r)
				seen.finish()
			}))
			defer front.Close()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := front.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close() //nolint:errcheck // a test
			got, err := io.ReadAll(answer.Body)
			if err != nil || string(got) != c.want || answer.ContentLength != c.wantLength || answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%d, %s of %d bytes, %v", answer.StatusCode, got, answer.ContentLength, err)
			}
		})
	}
}
