package remote

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve answers every call with a status and a body, and notes what was asked.
func serve(t *testing.T, status int, body string) (Server, func() string) {
	t.Helper()
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		asked = strings.TrimSpace(r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(data))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return Server{URL: server.URL + "/api/", APIKey: "k"}, func() string { return asked }
}

func TestCalls(t *testing.T) {
	s, asked := serve(t, http.StatusOK, `{"tokens": [1, 2], "prompt": "p", "content": "c", "sharing": true, "store": "none", "namespace": "m@1"}`)
	if tokens, err := s.Tokenize(t.Context(), "hello"); err != nil || !slices.Equal(tokens, []int32{1, 2}) ||
		asked() != `POST /api/tokenize Bearer k {"add_special":true,"content":"hello","parse_special":true}` {
		t.Errorf("%v, %v, %s", tokens, err, asked())
	}
	if text, err := s.Detokenize(t.Context(), []int32{3}); err != nil || text != "c" || asked() != `POST /api/detokenize Bearer k {"tokens":[3]}` {
		t.Errorf("%s, %v, %s", text, err, asked())
	}
	if text, err := s.ApplyTemplate(t.Context(), json.RawMessage(`{"messages": []}`)); err != nil || text != "p" || asked() != `POST /api/apply-template Bearer k {"messages":[]}` {
		t.Errorf("%s, %v, %s", text, err, asked())
	}
	if status, err := s.Status(t.Context()); err != nil || !status.Sharing || status.Store != "none" || status.Namespace != "m@1" || asked() != "GET /api/ollamoon/status Bearer k" {
		t.Errorf("%+v, %v, %s", status, err, asked())
	}
	s.URL = strings.TrimPrefix(s.URL, "http://") // as people write it
	if _, err := s.Status(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFailures(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		stock  bool
		says   string
	}{
		{http.StatusNotFound, `{"error": "File Not Found"}`, true, "no stand-in"},
		{http.StatusOK, "<html>", true, "no stand-in"},
		{http.StatusOK, "{}", true, "no stand-in"},
		{http.StatusUnauthorized, "Invalid", false, "--api-key"},
		{http.StatusServiceUnavailable, "Loading model", false, "status 503: Loading model"},
	} {
		s, _ := serve(t, c.status, c.body)
		_, err := s.Status(t.Context())
		var answer *StatusError
		if errors.Is(err, ErrStock) != c.stock || errors.As(err, &answer) == c.stock || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d %s: %v", c.status, c.body, err)
		}
		if _, err := s.Tokenize(t.Context(), "x"); err == nil && c.body != "{}" {
			t.Errorf("%d %s: no error", c.status, c.body)
		}
	}
	if _, err := (Server{URL: "http://127.0.0.1:1"}).Status(t.Context()); err == nil || errors.Is(err, ErrStock) {
		t.Errorf("nobody there: %v", err)
	}
}
