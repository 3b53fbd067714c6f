package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ollamoon/prefix"
	"ollamoon/store"
	"ollamoon/store/file"
)

// numbers are token ids as text.
func numbers(n, changed int) string {
	var b strings.Builder
	for i := range n {
		if i == changed {
			i = -1
		}
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// Token ids are looked up without a worker, in a store that is named.
func TestLookupTokens(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pages")
	args := []string{"lookup", "--as", "tokens", "--model", "m", "--page-tokens", "4", "--store", "file:" + dir}
	if _, err := run(t, "1 2 3", args...); err == nil || !strings.Contains(err.Error(), "is not there yet") {
		t.Errorf("without a store: %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a look made a store")
	}
	s, err := file.Open(file.Config{Dir: dir, BudgetBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := readTokens(strings.NewReader(numbers(8, -1)))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := prefix.Config{Model: "m", PageTokens: 4}.Pages(ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if err := s.BatchPut(t.Context(), []store.Item{{Key: p.Key, Bytes: []byte("x")}})[0]; err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, numbers(14, -1), args...)
	if err != nil || !strings.Contains(out, "standard input: 14 tokens, 3 full pages of 4 tokens\n  the store has the first 2 pages: a worker can load 8 of 14 tokens\n") {
		t.Errorf("%s, %v", out, err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte(numbers(14, 5)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = run(t, numbers(14, -1), append(args, "-", other, "--keys")...)
	if err != nil || !strings.Contains(out, "differ first at token 5, in page 1: they share 1 page\n") || !strings.Contains(out, pages[0].Key) {
		t.Errorf("%s, %v", out, err)
	}
	if err := os.WriteFile(other, []byte("1 x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "", append(args, other)...); err == nil || !strings.Contains(err.Error(), other+": line 1, column 3") {
		t.Errorf("what is no token: %v", err)
	}
}

// Where a store cannot be asked, one prompt is refused with the reason, and two are
// compared all the same.
func TestLookupByAWorkerThatDoesNotShare(t *testing.T) {
	status := `{"sharing": false, "reason": "the store is away", "store": "none", "page_tokens": 8}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/ollamoon/status":
			if status == "" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = io.WriteString(w, status)
		case "/tokenize": // a letter is a token
			var body struct{ Content string }
			_ = json.Unmarshal(data, &body)
			_ = json.NewEncoder(w).Encode(map[string]any{"tokens": []rune(body.Content)})
		case "/detokenize":
			var body struct{ Tokens []rune }
			_ = json.Unmarshal(data, &body)
			_ = json.NewEncoder(w).Encode(map[string]any{"content": string(body.Tokens)})
		}
	}))
	defer server.Close()
	one, two := filepath.Join(t.TempDir(), "one"), filepath.Join(t.TempDir(), "two")
	for path, text := range map[string]string{one: "it is noon now", two: "it is night now"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := run(t, "", "lookup", "--worker", server.URL, one); err == nil || !strings.Contains(err.Error(), "the store is away") {
		t.Errorf("one prompt: %v", err)
	}
	out, err := run(t, "", "lookup", "--worker", server.URL, one, two)
	want := "differ first at token 7, in page 0: they share 0 pages\n  after \"it is n\"\n  " + one + " has \"o\" (token 111)\n  " + two + " has \"i\" (token 105)\n"
	if err != nil || !strings.HasPrefix(out, "the store was not asked: the worker does not share prompts: the store is away\n") || !strings.Contains(out, want) || !strings.Contains(out, "1 full page of 8 tokens") {
		t.Errorf("%s, %v", out, err)
	}
	status = ""
	if out, err := run(t, "", "lookup", "--worker", server.URL, one, two); err != nil || !strings.Contains(out, "without Ollamoon") {
		t.Errorf("a stock llama-server: %s, %v", out, err)
	}
	status = `{"sharing": true, "store": "memory:", "namespace": "m@1"}`
	if _, err := run(t, "", "lookup", "--worker", server.URL, one); err == nil || !strings.Contains(err.Error(), "the worker's own memory") {
		t.Errorf("a store in memory: %v", err)
	}
	if _, err := run(t, "{", "lookup", "--worker", server.URL, "--as", "chat", "--store", "file:"+t.TempDir(), "--model", "m"); err == nil || !strings.Contains(err.Error(), `{"messages"`) {
		t.Errorf("no JSON: %v", err)
	}
}
