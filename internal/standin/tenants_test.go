package standin

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/trust"
)

// Each API key is a tenant: the same prompt under another key finds nothing, but
// a system prompt that is declared shared. Slots' prompts are not shown.
func TestEachKeyIsATenant(t *testing.T) {
	chat := map[string]any{"messages": []any{map[string]any{"role": "system", "content": prompt(40, "rule")}}}
	declared, err := json.Marshal(chat)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "shared.json")
	if err := os.WriteFile(file, declared, 0o600); err != nil {
		t.Fatal(err)
	}
	r := standing(t, "OLLAMOON_STORE=memory:", "OLLAMOON_TENANTS=keys", "OLLAMOON_SHARED_PREFIX="+file)
	r.env = append(r.env, "LLAMA_API_KEY=one,two")
	s := r.serve(t, model(t)...)
	ask := func(key string, about string) (cached int, answer string) {
		t.Helper()
		s.key = key
		chat["messages"] = []any{chat["messages"].([]any)[0], map[string]any{"role": "user", "content": prompt(40, about)}}
		chat["max_tokens"], chat["temperature"] = 4, 0
		body, err := json.Marshal(chat)
		if err != nil {
			t.Fatal(err)
		}
		code, got, _ := s.ask(http.MethodPost, "/v1/chat/completions", string(body))
		var c struct {
			Choices []struct{ Message struct{ Content string } }
			Usage   struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(got), &c); err != nil || code != http.StatusOK || len(c.Choices) != 1 {
			t.Fatalf("%d %s: %v", code, got, err)
		}
		return c.Usage.Details.Cached, c.Choices[0].Message.Content
	}
	cached, want := ask("one", "lamb")
	if cached != 0 {
		t.Errorf("the first of all finds %d tokens", cached)
	}
	if cached, _ := ask("one", "lamb"); cached < 512 {
		t.Errorf("the same key finds %d tokens", cached)
	}
	if cached, answer := ask("two", "lamb"); cached != 256 || answer != want {
		t.Errorf("another key finds %d tokens, want the page that is declared shared, and answers %q, want %q", cached, answer, want)
	}
	if code, body, _ := s.ask(http.MethodGet, "/slots", ""); code != http.StatusNotImplemented {
		t.Errorf("slots are shown: %d %s", code, body)
	}
	s.key = "three"
	if code, _, _ := s.ask(http.MethodPost, "/v1/chat/completions", string(declared)); code != http.StatusUnauthorized {
		t.Errorf("a key that is none: %d", code)
	}
}

// Behind a router only what it has signed is served, to the tenant that it names.
func TestBehindARouter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("a secret of thirty-two characters"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret, err := trust.ReadSecret(file)
	if err != nil {
		t.Fatal(err)
	}
	s := standing(t, "OLLAMOON_STORE=none", "OLLAMOON_TENANTS=router", "OLLAMOON_SECRET_FILE="+file).serve(t, model(t)...)
	body := `{"prompt":"` + prompt(30, "fox") + `","n_predict":2}`
	if code, _, _ := s.ask(http.MethodPost, "/completion", body); code != http.StatusUnauthorized {
		t.Errorf("without a signature: %d", code)
	}
	cached := func(tenant string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.address+"/completion", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		secret.Sign(request, tenant, time.Now())
		response, err := s.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var c completion
		if err := json.NewDecoder(response.Body).Decode(&c); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%d: %v", response.StatusCode, err)
		}
		return c.Timings.Cached
	}
	// Nothing is shared, and slots are emptied all the same.
	for i, c := range []struct {
		tenant string
		some   bool
	}{{"a", false}, {"a", true}, {"b", false}, {"a", false}} {
		if got := cached(c.tenant); (got > 0) != c.some {
			t.Errorf("request %d, of %s: %d tokens cached", i, c.tenant, got)
		}
	}
}

// Settings by which tenants cannot be told apart end the run: nobody is served by
// mistake.
func TestTenantsThatCannotBeToldApart(t *testing.T) {
	for name, settings := range map[string][]string{
		"no keys":   {"OLLAMOON_TENANTS=keys"},
		"no secret": {"OLLAMOON_TENANTS=router"},
		"no file":   {"OLLAMOON_SECRET_FILE=" + filepath.Join(t.TempDir(), "none")},
	} {
		r := standing(t, settings...).start(t, model(t, "--port", freePort(t))...)
		if e := r.end(); e != (Exit{Code: 1}) || !strings.Contains(r.errs.String(), "ollamoon:") {
			t.Errorf("%s: it ends with %v and says %s", name, e, r.errs)
		}
	}
}
