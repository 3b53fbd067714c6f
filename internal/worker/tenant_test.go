package worker

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// The same prompt of two tenants, on one slot, on another and from the store: no
// tenant finds what is another's, but for a beginning that is declared common.
// The same tenant finds its own.
func TestTenants(t *testing.T) {
	s := newStore(t)
	r := start(t, s, nil, "-c", "1536", "-np", "2", "--cache-ram", "0")
	r.worker.config.Tenant = func(r *http.Request) (string, error) {
		name := r.Header.Get("Tenant")
		if name == "" {
			return "", errors.New("who are you?")
		}
		return name, nil
	}
	prompt := r.tokens("t", 330)
	as := func(tenant string, tokens []int32) answer {
		t.Helper()
		r.tenant = tenant
		a := r.ask(greedy(tokens))
		if got := a.Timings.CacheTokens + a.Timings.PromptTokens; got != len(tokens) {
			t.Errorf("%d tokens are told of, want %d", got, len(tokens))
		}
		return a
	}
	cold := as("a", prompt)
	if cold.Timings.CacheTokens != 0 {
		t.Errorf("the first of all: %+v", cold.Timings)
	}
	for i, c := range []struct {
		tenant string
		cached int
	}{
		{"b", 0}, {"a", 329}, {"b", 329}, {"c", 0}, // takes a slot of another's, emptied
		{"a", 256}, // from the store
		{"d", 0}, {"b", 256},
	} {
		got := as(c.tenant, prompt)
		if got.Timings.CacheTokens != c.cached {
			t.Errorf("request %d, of %s: %d tokens cached, want %d", i, c.tenant, got.Timings.CacheTokens, c.cached)
		}
		// With one token left to compute the last bits differ, as on any engine.
		if c.cached <= 256 && got.Content != cold.Content {
			t.Errorf("request %d: %q, want %q", i, got.Content, cold.Content)
		}
	}

	// With a common beginning of a whole page and some tokens.
	changed := *r.worker.share.Load().Sharing
	changed.Common = [][]int32{prompt[:300]}
	if err := r.worker.Reshare(t.Context(), func() (*Sharing, error) { return &changed, nil }); err != nil {
		t.Fatal(err)
	}
	prompt = append(prompt, r.tokens("u", 260)...)
	cold = as("e", prompt)
	if got := as("f", prompt); got.Timings.CacheTokens != PageTokens || got.Content != cold.Content {
		t.Errorf("%+v, want the common page", got)
	}
	if got := as("e", prompt).Timings.CacheTokens; got < 512 {
		t.Errorf("the same tenant finds %d tokens", got)
	}
	if got := r.worker.Status().Pages.PagesPublished; got < 6 {
		t.Errorf("%d pages published by all tenants", got)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/completion", strings.NewReader(`{"prompt":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusUnauthorized || !bytes.Contains(body, []byte("who are you?")) {
		t.Errorf("nobody's request: %d %s", response.StatusCode, body)
	}
}
