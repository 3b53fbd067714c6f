// Package trust lets a router and its workers, who share a secret, know each other,
// and lets a worker believe which tenant a request is from.
//
// A router signs each request: the header Ollamoon-Auth has a time and a MAC over
// the method, the path, the tenant and that time. A worker that has the secret
// refuses requests without a valid one. A router asks a worker with a nonce in
// Ollamoon-Nonce, and the worker answers with a MAC over it in Ollamoon-Proof. The
// secret itself never travels. Bodies are not covered and nothing is encrypted:
// who can change packets between the two needs to be kept off that network.
package trust

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// The headers. All that begin so are between router and worker only.
const (
	HeaderPrefix = "Ollamoon-"
	TenantHeader = "Ollamoon-Tenant"
	AuthHeader   = "Ollamoon-Auth"
	NonceHeader  = "Ollamoon-Nonce"
	ProofHeader  = "Ollamoon-Proof"
)

// Skew is how much the clocks of router and worker may differ.
const Skew = 5 * time.Minute

// minSecret is the least length of a secret, in bytes.
const minSecret = 16

var (
	// ErrSecret: a file holds no secret that can be used.
	ErrSecret = errors.New("trust: bad secret")
	// ErrRefused: a request or an answer is not from one who has the secret.
	ErrRefused = errors.New("trust: refused")
)

// A Secret is what router and workers have in common.
type Secret []byte

// ReadSecret reads a secret from a file, without white space around it.
func ReadSecret(path string) (Secret, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading the secret: %w", err)
	}
	s := Secret(bytes.TrimSpace(data))
	if len(s) < minSecret {
		return nil, fmt.Errorf("%w: %s has %d bytes; it needs at least %d, as `openssl rand -hex 32` makes", ErrSecret, path, len(s), minSecret)
	}
	return s, nil
}

// Sign makes a request a router's, on behalf of a tenant; "" is none.
func (s Secret) Sign(r *http.Request, tenant string, now time.Time) {
	at := strconv.FormatInt(now.Unix(), 10)
	r.Header.Set(AuthHeader, at+":"+s.request(r, tenant, at))
	if tenant == "" {
		r.Header.Del(TenantHeader)
		return
	}
	r.Header.Set(TenantHeader, tenant)
}

// Tenant returns which tenant a router says a request is from. The error wraps
// ErrRefused when no router has signed it.
func (s Secret) Tenant(r *http.Request, now time.Time) (string, error) {
	at, mac, _ := strings.Cut(r.Header.Get(AuthHeader), ":")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%w: no %s", ErrRefused, AuthHeader)
	}
	tenant := r.Header.Get(TenantHeader)
	if !hmac.Equal([]byte(mac), []byte(s.request(r, tenant, at))) {
		return "", fmt.Errorf("%w: %s is of another secret or request", ErrRefused, AuthHeader)
	}
	if off := now.Sub(time.Unix(seconds, 0)).Abs(); off > Skew {
		return "", fmt.Errorf("%w: %s is %v off; set the clocks", ErrRefused, AuthHeader, off.Round(time.Second))
	}
	return tenant, nil
}

// Prove returns what a worker answers to a nonce.
func (s Secret) Prove(nonce string) string { return s.mac("worker", nonce) }

// Check returns an error that wraps ErrRefused when a proof is not of one who has
// the secret.
func (s Secret) Check(nonce, proof string) error {
	if !hmac.Equal([]byte(proof), []byte(s.Prove(nonce))) {
		return fmt.Errorf("%w: the worker does not have the secret", ErrRefused)
	}
	return nil
}

// Strip removes what a client may not say.
func Strip(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, HeaderPrefix) {
			delete(h, name)
		}
	}
}

func (s Secret) request(r *http.Request, tenant, at string) string {
	return s.mac("request", r.Method, r.URL.EscapedPath(), tenant, at)
}

// mac covers its parts each with its length, so that none runs into the next.
func (s Secret) mac(parts ...string) string {
	h := hmac.New(sha256.New, s)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
