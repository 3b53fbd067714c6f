package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// llamaServer answers a router's questions.
func llamaServer(t *testing.T, status string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/health":
			_, _ = io.WriteString(w, `{"status":"ok"}`)
		case "/props":
			_, _ = io.WriteString(w, `{"total_slots":1}`)
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
		case "/ollamoon/status":
			_, _ = io.WriteString(w, status)
		default:
			_, _ = io.WriteString(w, "answer")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// The router says where it is, serves, and ends in good order when it is told to.
func TestRoute(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(" secret \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	worker := llamaServer(t, `{}`)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	reader, writer := io.Pipe()
	root := newRootCommand()
	root.SetArgs([]string{"route", "--port", "0", "--log-level", "error", "--admin-token-file", token, "a=" + worker.URL})
	root.SetOut(writer)
	root.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(line)
	client := &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	get := func(path, want string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer secret")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if data, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %s, %v", path, data, err)
		}
	}
	get("/anything", "answer")
	get("/ollamoon/workers", `"id": "a"`)
	get("/ollamoon/status", `"policy": "least-time"`)
	end()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it does not end")
	}
}

func TestRouteFails(t *testing.T) {
	status := `{"sharing":true,"namespace":"n@%d","page_tokens":256}`
	one, two := llamaServer(t, fmt.Sprintf(status, 1)), llamaServer(t, fmt.Sprintf(status, 2))
	for _, c := range []struct {
		args  string
		words []string
	}{
		{"route", []string{"no workers", "--admin-token-file"}},
		{"route localhost:8080", []string{"[NAME=]http://HOST:PORT"}},
		{"route --surface openai x", []string{"llama, ollama"}},
		{"route --policy best x", []string{"least-time", "round-robin"}},
		{"route --api-keys /nonexistent/keys http://x", []string{"/nonexistent/keys"}},
		{"route --secret-file /nonexistent/secret http://x", []string{"/nonexistent/secret"}},
		{"route --port 0 " + one.URL + " " + two.URL, []string{"do not fit together", "n@1", "n@2"}},
		{"route --port 0 --queue -1 " + one.URL, []string{"the queue is not negative"}},
		{"bench route --streams 0", []string{"streams are positive"}},
	} {
		out, err := run(t, "", strings.Fields(c.args)...)
		if err == nil {
			t.Errorf("%s: no error: %s", c.args, out)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in: %v", c.args, w, err)
			}
		}
	}
}
