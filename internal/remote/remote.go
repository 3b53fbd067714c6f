package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxAnswerBytes bounds what is read of an answer.
const maxAnswerBytes = 64 << 20

// ErrStock: a server is a llama-server without a stand-in, or another program.
var ErrStock = errors.New("no stand-in for llama-server answers there")

// A StatusError is an answer other than 200.
type StatusError struct {
	Call   string
	Status int
	Body   string
}

func (e *StatusError) Error() string {
	if e.Status == http.StatusUnauthorized {
		return e.Call + ": it asks for a key: give it by --api-key"
	}
	return fmt.Sprintf("%s: status %d: %s", e.Call, e.Status, e.Body)
}

// A Server is a running one.
type Server struct {
	URL    string // without a path, or with the prefix of all paths
	APIKey string
}

// Status is what a stand-in says of itself, as far as it matters here.
type Status struct {
	Sharing        bool   `json:"sharing"`
	Reason         string `json:"reason"`
	Store          string `json:"store"`
	Role           string `json:"role"`
	Namespace      string `json:"namespace"`
	NamespaceWords string `json:"namespace_words"`
	PageTokens     int    `json:"page_tokens"`
	Engine         struct {
		Build string `json:"build"`
	} `json:"engine"`
	Slots struct {
		Total   int    `json:"total"`
		Free    int    `json:"free"`
		Waiting int    `json:"waiting"`
		Folder  string `json:"folder"`
	} `json:"slots"`
}

// Status asks a stand-in what it shares.
func (s Server) Status(ctx context.Context) (Status, error) {
	var status Status
	data, err := s.call(ctx, http.MethodGet, "/ollamoon/status", nil)
	var answer *StatusError
	if errors.As(err, &answer) && answer.Status == http.StatusNotFound {
		return status, fmt.Errorf("%w: %s", ErrStock, s.URL)
	}
	if err != nil {
		return status, err
	}
	if json.Unmarshal(data, &status) != nil || status.Store == "" {
		return status, fmt.Errorf("%w: %s", ErrStock, s.URL)
	}
	return status, nil
}

// Tokenize returns the tokens that the engine makes of a prompt.
func (s Server) Tokenize(ctx context.Context, prompt string) ([]int32, error) {
	var answer struct{ Tokens []int32 }
	err := s.post(ctx, "/tokenize", map[string]any{"content": prompt, "add_special": true, "parse_special": true}, &answer)
	return answer.Tokens, err
}

// ApplyTemplate returns the prompt that the engine makes of the body of a chat
// request.
func (s Server) ApplyTemplate(ctx context.Context, body json.RawMessage) (string, error) {
	var answer struct{ Prompt string }
	err := s.post(ctx, "/apply-template", body, &answer)
	return answer.Prompt, err
}

// Detokenize returns the text of tokens.
func (s Server) Detokenize(ctx context.Context, tokens []int32) (string, error) {
	var answer struct{ Content string }
	err := s.post(ctx, "/detokenize", map[string]any{"tokens": tokens}, &answer)
	return answer.Content, err
}

func (s Server) post(ctx context.Context, path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if data, err = s.call(ctx, http.MethodPost, path, data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s%s: %w", s.URL, path, err)
	}
	return nil
}

func (s Server) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	address := strings.TrimSuffix(s.URL, "/") + path
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	request.Header.Set("Content-Type", "application/json")
	if s.APIKey != "" {
		request.Header.Set("Authorization", "Bearer "+s.APIKey)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // nothing to close, and no proxy
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", s.URL, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, &StatusError{Call: address, Status: response.StatusCode, Body: strings.TrimSpace(string(data[:min(len(data), 500)]))}
	}
	return data, nil
}
