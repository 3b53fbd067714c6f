package trust

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	secret = Secret("0123456789abcdef")
	now    = time.Unix(1_700_000_000, 0)
)

func signed(t *testing.T, tenant string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat%2Fx?y=1", nil)
	secret.Sign(r, tenant, now)
	return r
}

func TestTenant(t *testing.T) {
	for _, tenant := range []string{"", "one", "two words"} {
		if got, err := secret.Tenant(signed(t, tenant), now.Add(Skew)); err != nil || got != tenant {
			t.Errorf("%q: %q, %v", tenant, got, err)
		}
	}
	for name, change := range map[string]func(*http.Request){
		"another tenant": func(r *http.Request) { r.Header.Set(TenantHeader, "two") },
		"no tenant":      func(r *http.Request) { r.Header.Del(TenantHeader) },
		"another path":   func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/v1/chat/y", "" },
		"another method": func(r *http.Request) { r.Method = http.MethodGet },
		"another time": func(r *http.Request) {
			r.Header.Set(AuthHeader, strings.Replace(r.Header.Get(AuthHeader), "17", "18", 1))
		},
		"no header": func(r *http.Request) { r.Header.Del(AuthHeader) },
		"no MAC":    func(r *http.Request) { r.Header.Set(AuthHeader, "1700000000:") },
	} {
		r := signed(t, "one")
		change(r)
		if tenant, err := secret.Tenant(r, now); !errors.Is(err, ErrRefused) || tenant != "" {
			t.Errorf("%s: %q, %v", name, tenant, err)
		}
	}
	if _, err := secret.Tenant(signed(t, "one"), now.Add(Skew+time.Second)); !errors.Is(err, ErrRefused) {
		t.Error("an old request:", err)
	}
	if _, err := Secret("fedcba9876543210").Tenant(signed(t, "one"), now); !errors.Is(err, ErrRefused) {
		t.Error("another secret:", err)
	}
}

func TestProof(t *testing.T) {
	if err := secret.Check("nonce", secret.Prove("nonce")); err != nil {
		t.Error(err)
	}
	for _, proof := range []string{"", secret.Prove("other"), Secret("fedcba9876543210").Prove("nonce")} {
		if err := secret.Check("nonce", proof); !errors.Is(err, ErrRefused) {
			t.Errorf("%q: %v", proof, err)
		}
	}
}

func TestStrip(t *testing.T) {
	h := http.Header{"Ollamoon-Tenant": {"x"}, "Ollamoon-Anything": {"y"}, "Accept": {"z"}}
	Strip(h)
	if len(h) != 1 || h.Get("Accept") != "z" {
		t.Error(h)
	}
}

func TestReadSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write := func(s string) {
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadSecret(path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	write("  too short      \n")
	if _, err := ReadSecret(path); !errors.Is(err, ErrSecret) {
		t.Error(err)
	}
	write("\n0123456789abcdef\n")
	if s, err := ReadSecret(path); err != nil || string(s) != string(secret) {
		t.Errorf("%q, %v", s, err)
	}
}
