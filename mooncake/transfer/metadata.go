package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// metadataTimeout bounds one question to the metadata server.
const metadataTimeout = 5 * time.Second

// HTTPMetadata returns a Resolver that asks a Transfer Engine's HTTP metadata
// server; baseURL is what owners were given, such as
// "http://127.0.0.1:8080/metadata". Proxies and redirects are not followed.
func HTTPMetadata(baseURL string) Resolver {
	return &httpMetadata{
		baseURL: baseURL,
		client: &http.Client{
			// Questions are rare: a connection each leaves nothing to close.
			Transport: &http.Transport{DisableKeepAlives: true},
			Timeout:   metadataTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			},
		},
	}
}

type httpMetadata struct {
	baseURL string
	client  *http.Client
}

func (m *httpMetadata) Resolve(ctx context.Context, endpoint string) (Target, error) {
	t, err := m.resolve(ctx, endpoint)
	if err != nil {
		return Target{}, resolveError(ctx, endpoint, err)
	}
	return t, nil
}

func (m *httpMetadata) resolve(ctx context.Context, endpoint string) (Target, error) {
	data, err := m.get(ctx, "mooncake/ram/"+endpoint)
	if err != nil {
		return Target{}, err
	}
	s, err := decodeSegment(data)
	if err != nil {
		return Target{}, err
	}
	host := ""
	if s.Host == "" {
		if host, err = m.host(ctx, endpoint); err != nil {
			return Target{}, err
		}
	}
	return s.target(host)
}

// host asks for the host of an owner whose segment does not name it.
func (m *httpMetadata) host(ctx context.Context, endpoint string) (string, error) {
	data, err := m.get(ctx, "mooncake/rpc_meta/"+endpoint)
	if err != nil {
		return "", err
	}
	var meta struct {
		Host string `json:"ip_or_host_name"`
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return "", fmt.Errorf("RPC description: %w", err)
	}
	return meta.Host, nil
}

// get asks for a key. Metadata servers know it only percent-encoded whole,
// slashes and colons too.
func (m *httpMetadata) get(ctx context.Context, key string) ([]byte, error) {
	address := m.baseURL + "?key=" + url.QueryEscape(key)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking the metadata server: %w", err)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the metadata server: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metadata server: %s for key %q", resp.Status, key)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxMetadataBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading from the metadata server: %w", err)
	}
	if len(data) > maxMetadataBytes {
		return nil, fmt.Errorf("metadata server: more than %d bytes for key %q", maxMetadataBytes, key)
	}
	return data, nil
}
