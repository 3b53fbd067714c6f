package router

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// Keys are the API keys of the public surface, each with its tenant. They are
// kept as digests.
type Keys struct {
	digests [][sha256.Size]byte
	names   []string
}

// ReadKeys reads a file of lines "TENANT KEY" or "KEY"; a key without a tenant is
// one of its own. Empty lines and those that begin with # say nothing.
func ReadKeys(path string) (*Keys, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading API keys: %w", err)
	}
	keys := &Keys{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for number := 1; lines.Scan(); number++ {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) > 2 {
			return nil, fmt.Errorf("%w: %s, line %d: it is \"TENANT KEY\" or \"KEY\"", ErrConfig, path, number)
		}
		key := fields[len(fields)-1]
		digest := sha256.Sum256([]byte(key))
		name := hex.EncodeToString(digest[:8])
		if len(fields) == 2 {
			name = fields[0]
		}
		if _, ok := keys.find(key); ok {
			return nil, fmt.Errorf("%w: %s, line %d: the key is there twice", ErrConfig, path, number)
		}
		keys.digests, keys.names = append(keys.digests, digest), append(keys.names, name)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading API keys: %w", err)
	}
	if len(keys.names) == 0 {
		return nil, fmt.Errorf("%w: %s has no API key", ErrConfig, path)
	}
	return keys, nil
}

// find returns a key's tenant, in a time that does not tell how near a key is.
func (k *Keys) find(key string) (tenant string, ok bool) {
	digest := sha256.Sum256([]byte(key))
	at := -1
	for i := range k.digests {
		same := subtle.ConstantTimeCompare(k.digests[i][:], digest[:])
		at = subtle.ConstantTimeSelect(same, i, at)
	}
	if at < 0 {
		return "", false
	}
	return k.names[at], true
}

// tenants is how many there are.
func (k *Keys) tenants() int {
	if k == nil {
		return 0
	}
	names := map[string]bool{}
	for _, n := range k.names {
		names[n] = true
	}
	return len(names)
}

// tenant returns which tenant a request is of; "" where there are no keys.
func (k *Keys) tenant(r *http.Request) (string, bool) {
	if k == nil {
		return "", true
	}
	return k.find(given(r))
}

// given is the key that a request has, as llama-server and Ollama take them.
func given(r *http.Request) string {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return bearer
	}
	return r.Header.Get("X-Api-Key")
}

// same compares secrets.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
