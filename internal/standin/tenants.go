package standin

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"ollamoon/internal/settings"
	"ollamoon/internal/trust"
	"ollamoon/internal/worker"
)

// errTenants: the settings ask for tenants that cannot be told apart.
var errTenants = errors.New("standin: tenants cannot be told apart")

// knowOthers finds out how routers, prefill workers and tenants are known. What is
// wrong with it ends the run: an engine that serves whoever comes would not be what
// is asked for.
func (s *standIn) knowOthers() error {
	if s.settings.SecretFile != "" {
		var err error
		if s.secret, err = trust.ReadSecret(s.settings.SecretFile); err != nil {
			return err
		}
	}
	switch s.settings.Tenants {
	case settings.KeyTenants:
		listener, err := s.args.Listener()
		if err != nil {
			return err
		}
		if len(listener.APIKeys) == 0 {
			return fmt.Errorf("%w: each API key is to be one, and there are no keys; give llama-server's --api-key-file FILE", errTenants)
		}
		s.tenant = func(r *http.Request) (string, error) { return keyTenant(apiKey(r)), nil }
	case settings.RouterTenants:
		if len(s.secret) == 0 {
			return fmt.Errorf("%w: a router is to tell, and has no secret in common with this worker; give --ollamoon-secret-file FILE", errTenants)
		}
		s.tenant = func(r *http.Request) (string, error) { return s.secret.Tenant(r, time.Now()) }
	}
	return nil
}

// apart serves tenants by an engine of which nothing is shared: its slots are
// emptied between two tenants all the same.
func (s *standIn) apart() http.Handler {
	var mu sync.Mutex
	var made *worker.Worker
	get := func(ctx context.Context) (*worker.Worker, error) {
		mu.Lock()
		defer mu.Unlock()
		if made != nil {
			return made, nil
		}
		props, err := s.engine.Props(ctx)
		if err != nil {
			return nil, err
		}
		made, err = worker.New(worker.Config{
			Engine: s.engine.Client, Prefix: s.gate.listener.Prefix, APIKeys: s.gate.listener.APIKeys,
			Slots: props.TotalSlots, Context: props.Settings.ContextTokens, UBatch: s.args.UBatch(),
			Used: true, Tenant: s.tenant, Logger: s.log, Observer: s.metrics,
		})
		return made, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		each, err := get(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		each.ServeHTTP(w, r)
	})
}

// apiKey is the key of a request, as the engine takes it.
func apiKey(r *http.Request) string {
	key := r.Header.Get("Authorization")
	if key == "" {
		key = r.Header.Get("X-Api-Key")
	}
	return strings.TrimPrefix(key, "Bearer ")
}

// keyTenant names a tenant by its key, without telling the key.
func keyTenant(key string) string {
	digest := sha256.Sum256([]byte("ollamoon tenant\n" + key))
	return hex.EncodeToString(digest[:8])
}

// foreign reports whether a path is one that only a single tenant may use: it
// shows prompts of others, or changes slots or what they are computed with.
func foreign(path string) bool {
	return path == "/slots" || strings.HasPrefix(path, "/slots/") || path == "/lora-adapters"
}

// commonPrompts returns the tokens of the beginnings that tenants have in common:
// the files' texts, or those that the engine's template makes of chats in JSON.
func (s *standIn) commonPrompts(ctx context.Context) ([][]int32, error) {
	var prompts [][]int32
	for _, path := range s.settings.SharedPrefixes {
		data, err := os.ReadFile(path) //nolint:gosec // a file of the settings
		if err != nil {
			return nil, fmt.Errorf("reading a prefix that tenants share: %w", err)
		}
		text := string(data)
		var chat struct{ Messages []json.RawMessage }
		if json.Unmarshal(data, &chat) == nil && len(chat.Messages) > 0 {
			if text, err = s.engine.ApplyTemplate(ctx, data); err != nil {
				return nil, fmt.Errorf("the prefix that tenants share of %s: %w", path, err)
			}
		}
		tokens, err := s.engine.Tokenize(ctx, text)
		if err != nil {
			return nil, fmt.Errorf("the prefix that tenants share of %s: %w", path, err)
		}
		prompts = append(prompts, tokens)
	}
	return prompts, nil
}

// digest tells prompts that tenants have in common from others.
func digest(prompts [][]int32) string {
	if len(prompts) == 0 {
		return ""
	}
	hash := sha256.New()
	for _, tokens := range prompts {
		_ = binary.Write(hash, binary.LittleEndian, int64(len(tokens))) // a hash does not fail
		_ = binary.Write(hash, binary.LittleEndian, tokens)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}
