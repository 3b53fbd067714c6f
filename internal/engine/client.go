package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// maxAnswerBytes bounds what is read of an answer to a control call.
const maxAnswerBytes = 64 << 20

var (
	// ErrRefused is wrapped by a StatusError.
	ErrRefused = errors.New("engine: refused")
	// ErrIneffective is returned when the engine says that it has saved or
	// restored and has not: another count of tokens than the call was about.
	ErrIneffective = errors.New("engine: without effect")
)

// A StatusError is an answer of the engine that is not 200.
type StatusError struct {
	Call   string
	Status int
	Body   string
}

// Error says what was asked and what was answered.
func (e *StatusError) Error() string {
	return fmt.Sprintf("engine: %s: status %d: %s", e.Call, e.Status, e.Body)
}

// Unwrap returns ErrRefused.
func (e *StatusError) Unwrap() error { return ErrRefused }

// A Client makes control calls to a llama-server that listens on a socket.
type Client struct {
	// HTTP sends a request to the server, whatever the host of its URL.
	HTTP *http.Client
	// forwards carries what is passed on, each request on a connection of its own: the
	// engine closes one after an answer that it streams, without saying so before, and
	// the next request on it would fail.
	forwards *http.Transport
	prefix   string
	apiKey   string
}

// idleTimeout is how long a connection stays open unused: less than the 5 seconds
// after which the engine closes it, so that no request meets that.
const idleTimeout = 3 * time.Second

// NewClient returns a client of the server on a socket, which serves under
// prefix and asks for apiKey unless that is empty.
func NewClient(socket, prefix, apiKey string) *Client {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	calls := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
	}
	forwards := calls.Clone()
	forwards.DisableKeepAlives = true
	return &Client{prefix: prefix, apiKey: apiKey, HTTP: &http.Client{Transport: calls}, forwards: forwards}
}

// call sends a JSON body, if not nil, and decodes the answer into answer, if not
// nil.
func (c *Client) call(ctx context.Context, method, path string, body, answer any) error {
	var content io.Reader
	if body != nil {
		data, ok := body.([]byte)
		if !ok {
			var err error
			if data, err = json.Marshal(body); err != nil {
				return fmt.Errorf("engine: %s: %w", path, err)
			}
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://engine"+c.prefix+path, content)
	if err != nil {
		return fmt.Errorf("engine: %s: %w", path, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header["Idempotency-Key"] = nil // not sent; a call that meets a closed connection is made again
	if c.apiKey != "" {
		request.Header.Set("Authorization", "Bearer "+c.apiKey)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return fmt.Errorf("engine: %s: %w", path, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("engine: %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return &StatusError{Call: method + " " + path, Status: response.StatusCode, Body: string(data[:min(len(data), 500)])}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("engine: %s: %w", path, err)
	}
	return nil
}

// Health returns nil when the engine has loaded its model.
func (c *Client) Health(ctx context.Context) error {
	return c.call(ctx, http.MethodGet, "/health", nil, nil)
}

// Props are the engine's properties that matter here.
type Props struct {
	TotalSlots int    `json:"total_slots"`
	ModelPath  string `json:"model_path"`
	ModelAlias string `json:"model_alias"`
	BuildInfo  string `json:"build_info"`
	Settings   struct {
		ContextTokens int `json:"n_ctx"` // of a slot
	} `json:"default_generation_settings"`
}

// Props asks for the engine's properties.
func (c *Client) Props(ctx context.Context) (Props, error) {
	var p Props
	err := c.call(ctx, http.MethodGet, "/props", nil, &p)
	return p, err
}

// LoRA is an adapter that the engine has loaded.
type LoRA struct {
	ID    int     `json:"id"`
	Path  string  `json:"path"`
	Scale float64 `json:"scale"` // 0: not applied
}

// LoRAs returns the engine's adapters, in the order in which they are applied.
func (c *Client) LoRAs(ctx context.Context) ([]LoRA, error) {
	var loras []LoRA
	err := c.call(ctx, http.MethodGet, "/lora-adapters", nil, &loras)
	return loras, err
}

// Tokenize returns the tokens that the engine makes of a prompt: a text, or a
// list of texts and tokens.
func (c *Client) Tokenize(ctx context.Context, content any) ([]int32, error) {
	var answer struct{ Tokens []int32 }
	err := c.call(ctx, http.MethodPost, "/tokenize", map[string]any{
		"content": content, "add_special": true, "parse_special": true,
	}, &answer)
	return answer.Tokens, err
}

// ApplyTemplate returns the prompt that the engine makes of the body of a chat
// request.
func (c *Client) ApplyTemplate(ctx context.Context, body []byte) (string, error) {
	var answer struct{ Prompt string }
	err := c.call(ctx, http.MethodPost, "/apply-template", body, &answer)
	return answer.Prompt, err
}

// CountTokens returns how many tokens the engine makes of a request's body, under
// the path that counts those of its kind.
func (c *Client) CountTokens(ctx context.Context, path string, body []byte) (int, error) {
	var answer struct {
		Tokens int `json:"input_tokens"`
	}
	err := c.call(ctx, http.MethodPost, path, body, &answer)
	return answer.Tokens, err
}

// Timings say how the engine came to an answer.
type Timings struct {
	CacheTokens  int     `json:"cache_n"`
	PromptTokens int     `json:"prompt_n"`
	PromptMS     float64 `json:"prompt_ms"`
}

// Prefill computes a prompt into a slot and generates nothing.
func (c *Client) Prefill(ctx context.Context, slot int, tokens []int32) (Timings, error) {
	var answer struct{ Timings Timings }
	err := c.call(ctx, http.MethodPost, "/completion", map[string]any{
		"prompt": tokens, "n_predict": 0, "cache_prompt": true, "id_slot": slot,
	}, &answer)
	return answer.Timings, err
}

// Save writes a slot's cache into a file of the slot folder and returns its
// size. The engine answers 200 for a slot that it has cleared: a save of other
// than so many tokens is ErrIneffective, unless tokens is negative.
func (c *Client) Save(ctx context.Context, slot int, name string, tokens int) (int64, error) {
	var answer struct {
		Saved   int   `json:"n_saved"`
		Written int64 `json:"n_written"`
	}
	if err := c.slotAction(ctx, slot, "save", map[string]string{"filename": name}, &answer); err != nil {
		return 0, err
	}
	if tokens >= 0 && answer.Saved != tokens {
		return answer.Written, fmt.Errorf("%w: saved %d tokens of %d", ErrIneffective, answer.Saved, tokens)
	}
	return answer.Written, nil
}

// Restore reads a slot's cache from a file of the slot folder, which holds so
// many tokens.
func (c *Client) Restore(ctx context.Context, slot int, name string, tokens int) error {
	var answer struct {
		Restored int `json:"n_restored"`
	}
	if err := c.slotAction(ctx, slot, "restore", map[string]string{"filename": name}, &answer); err != nil {
		return err
	}
	if answer.Restored != tokens {
		return fmt.Errorf("%w: restored %d tokens of %d", ErrIneffective, answer.Restored, tokens)
	}
	return nil
}

// Erase empties a slot.
func (c *Client) Erase(ctx context.Context, slot int) error {
	return c.slotAction(ctx, slot, "erase", nil, nil)
}

func (c *Client) slotAction(ctx context.Context, slot int, action string, body, answer any) error {
	return c.call(ctx, http.MethodPost, "/slots/"+strconv.Itoa(slot)+"?action="+action, body, answer)
}
