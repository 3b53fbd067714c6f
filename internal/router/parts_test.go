package router

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"ollamoon/internal/router/policy"
)

func cancelable(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

func newRequest(t *testing.T, method, path string) *http.Request {
	return httptest.NewRequestWithContext(t.Context(), method, path, nil)
}

func record(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// testKeys are those of a file with the text.
func testKeys(t *testing.T, text string) *Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := ReadKeys(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// testTenant is the tenant of a key that names none.
func testTenant(key string) string {
	digest := sha256.Sum256([]byte(key))
	return hex.EncodeToString(digest[:8])
}

func TestBadKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	for text, want := range map[string]string{
		"": "has no API key", "# only\n": "has no API key", "a b c": "line 1", "a k\n\nb k": "line 3",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKeys(path); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ReadKeys(path + ".not"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// A prompt that continues another has its keys and more, in every form of prompt;
// other tenants and models share none.
func TestKeysOfPrompts(t *testing.T) {
	long := func(what string, n int) string { return strings.Repeat(what+" ", n) }
	call := func(path, tenant, body string) *call {
		r := newRequest(t, http.MethodPost, path)
		return newCall(Llama, r, work, tenant, []byte(body))
	}
	for name, bodies := range map[string][2]string{
		"text":     {`{"prompt":"` + long("one", 1000) + `"}`, `{"prompt":"` + long("one", 1000) + long("two", 1000) + `"}`},
		"tokens":   {`{"prompt":[1` + strings.Repeat(", 17", 1000) + `]}`, `{"prompt":[1` + strings.Repeat(", 17", 1000) + strings.Repeat(", 18", 1000) + `]}`},
		"messages": {`{"messages":[{"c":"` + long("one", 1000) + `"}]}`, `{"n_predict":5, "messages": [ {"c":"` + long("one", 1000) + `"} , {"c":"` + long("two", 1000) + `"}]}`},
		"responses": {
			`{"instructions":"` + long("one", 600) + `","input":[{"c":"` + long("two", 600) + `"}]}`,
			`{"input":[{"c":"` + long("two", 600) + `"},{"c":"` + long("one", 1000) + `"}],"instructions":"` + long("one", 600) + `"}`,
		},
		"system": {`{"system":"` + long("one", 1000) + `","messages":[]}`, `{"messages":[{"c":"` + long("two", 1000) + `"}],"system":"` + long("one", 1000) + `"}`},
	} {
		first, second := call("/completion", "t", bodies[0]).request, call("/completion", "t", bodies[1]).request
		n := len(first.Prefix)
		if n < 3 || len(second.Prefix) < n+3 || !slices.Equal(first.Prefix, second.Prefix[:n]) {
			t.Errorf("%s: %d keys, %d of the one that continues it, equal %v", name, n, len(second.Prefix), slices.Equal(first.Prefix, second.Prefix[:min(n, len(second.Prefix))]))
		}
		if second.PromptTokens < len(second.Prefix)*blockTokens || second.PromptTokens > (len(second.Prefix)+1)*blockTokens {
			t.Errorf("%s: %d tokens in %d blocks", name, second.PromptTokens, len(second.Prefix))
		}
		for what, other := range map[string]policy.Request{
			"another tenant": call("/completion", "u", bodies[0]).request,
			"another model":  call("/completion", "t", `{"model":"x",`+bodies[0][1:]).request,
		} {
			if slices.Contains(other.Prefix, first.Prefix[0]) {
				t.Errorf("%s: %s has the same keys", name, what)
			}
		}
	}
	if c := call("/completion", "", `{"max_tokens":7}`); c.request.OutputTokens != 7 {
		t.Error(c.request)
	}
	if c := call("/completion", "", `{"n_predict":-1,"options":{"num_predict":9}}`); c.request.OutputTokens != 9 {
		t.Error(c.request)
	}
	if c := call("/completion", "", `{"model":"m","prompt":"x"`); c.model != "" || c.request.PromptTokens != 0 {
		t.Error(c)
	}
}

// However a stream comes, what is handed on is what came, in whole lines.
func TestStreamsComeThroughInAnyPieces(t *testing.T) {
	var stream strings.Builder
	for i := range 60 {
		stream.WriteString("data: " + strings.Repeat("x", i*i*7) + "\r\n\r\n") // up to 24 KB
	}
	stream.WriteString("no end")
	for _, size := range []int{1, 7, 4096, 100000} {
		broken := 0
		a := &answer{
			ReadCloser: io.NopCloser(iotest.HalfReader(strings.NewReader(stream.String()))),
			format:     Llama.format(http.Header{"Content-Type": {"text/event-stream"}}), broken: func(error) { broken++ }, came: &atomic.Int64{},
		}
		var got bytes.Buffer
		buffer := make([]byte, size)
		for {
			n, err := a.Read(buffer)
			got.Write(buffer[:n])
			if err != nil {
				break
			}
		}
		if got.String() != stream.String() || broken != 0 {
			t.Errorf("in pieces of %d: %d bytes of %d, broken %d", size, got.Len(), stream.Len(), broken)
		}
	}
	// One that breaks within a line longer than the buffer.
	a := &answer{
		ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader("data: "+strings.Repeat("x", 100)), iotest.ErrReader(io.ErrUnexpectedEOF))),
		format:     Ollama.format(http.Header{"Content-Type": {"application/x-ndjson"}}), path: "/api/chat", broken: func(error) {}, came: &atomic.Int64{},
	}
	var got bytes.Buffer
	if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{a}, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got.String(), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[1], `{"error":`) || lines[2] != "" {
		t.Errorf("%q", lines)
	}
}
