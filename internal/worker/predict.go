package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"ollamoon/internal/engine"
)

// errUnpredictable is wrapped when a request's tokens cannot be told before the
// engine runs it; such a request is not shared.
var errUnpredictable = errors.New("worker: tokens cannot be predicted")

// A request is what a completion's body says that matters here.
type request struct {
	Prompt      json.RawMessage `json:"prompt"`
	Messages    json.RawMessage `json:"messages"`
	System      json.RawMessage `json:"system"`
	Input       json.RawMessage `json:"input"`
	Multimodal  json.RawMessage `json:"multimodal_data"`
	LoRA        json.RawMessage `json:"lora"`
	IDSlot      *int            `json:"id_slot"`
	CachePrompt *bool           `json:"cache_prompt"`
	N           int             `json:"n"`
	NCmpl       int             `json:"n_cmpl"`
}

// slotWanted returns which slots a request takes: one, the one that it names, or
// all of them when it makes several answers, whose slots the engine chooses.
func (r *request) slotWanted() int {
	switch {
	case r.N > 1 || r.NCmpl > 1:
		return allSlots
	case r.IDSlot != nil && *r.IDSlot >= 0:
		return *r.IDSlot
	}
	return anySlot
}

// predict returns the tokens that the engine will make of a request.
type predict func(ctx context.Context, c *engine.Client, r *request, body []byte) ([]int32, error)

// predictions by path; a path with nil is a completion whose tokens are not
// predicted, and which is therefore not shared.
var predictions = map[string]predict{
	"/completion":          predictPrompt,
	"/completions":         predictPrompt,
	"/v1/completions":      predictPrompt,
	"/chat/completions":    predictChat,
	"/v1/chat/completions": predictChat,
	"/v1/messages":         predictMessages,
	"/v1/responses":        nil,
	"/responses":           nil,
	"/infill":              nil,
}

func unpredictable(why string) error { return fmt.Errorf("%w: %s", errUnpredictable, why) }

// predictPrompt takes a prompt that is a string, or tokens.
func predictPrompt(ctx context.Context, c *engine.Client, r *request, _ []byte) ([]int32, error) {
	prompt := bytes.TrimSpace(r.Prompt)
	switch {
	case len(prompt) == 0:
		return nil, unpredictable("no prompt")
	case prompt[0] == '"':
		var text string
		if err := json.Unmarshal(prompt, &text); err != nil {
			return nil, unpredictable("a prompt that is no string")
		}
		return c.Tokenize(ctx, text)
	case prompt[0] == '[':
		var tokens []int32
		if err := json.Unmarshal(prompt, &tokens); err != nil {
			return nil, unpredictable("several prompts, or one of text and tokens")
		}
		return tokens, nil
	}
	return nil, unpredictable("a prompt that is neither text nor tokens")
}

// predictChat lets the engine apply its template.
func predictChat(ctx context.Context, c *engine.Client, r *request, body []byte) ([]int32, error) {
	if hasMedia(r.Messages) {
		return nil, unpredictable("media in the prompt")
	}
	prompt, err := c.ApplyTemplate(ctx, body)
	if err != nil {
		return nil, err
	}
	return c.Tokenize(ctx, prompt)
}

// predictMessages rewrites an Anthropic request as a chat: the engine's
// template call does not know its system field.
func predictMessages(ctx context.Context, c *engine.Client, r *request, _ []byte) ([]int32, error) {
	if hasMedia(r.Messages) {
		return nil, unpredictable("media in the prompt")
	}
	var messages []json.RawMessage
	if err := json.Unmarshal(r.Messages, &messages); err != nil {
		return nil, unpredictable("messages that are no list")
	}
	if system := systemText(r.System); system != "" {
		first, err := json.Marshal(map[string]string{"role": "system", "content": system})
		if err != nil {
			return nil, unpredictable("a system prompt that is no text")
		}
		messages = append([]json.RawMessage{first}, messages...)
	}
	body, err := json.Marshal(map[string]any{"messages": messages})
	if err != nil {
		return nil, unpredictable("messages that are no JSON")
	}
	prompt, err := c.ApplyTemplate(ctx, body)
	if err != nil {
		return nil, err
	}
	return c.Tokenize(ctx, prompt)
}

// systemText is an Anthropic system prompt: a string, or blocks of text.
func systemText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	var b strings.Builder
	for _, block := range blocks {
		b.WriteString(block.Text)
	}
	return b.String()
}

// hasMedia reports whether a message has a part that is not text.
func hasMedia(messages json.RawMessage) bool {
	var list []struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(messages, &list) != nil {
		return false
	}
	for _, m := range list {
		var parts []struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(m.Content, &parts) != nil {
			continue
		}
		for _, p := range parts {
			switch p.Type {
			case "image", "image_url", "input_image", "input_audio", "audio", "video", "video_url", "input_video":
				return true
			}
		}
	}
	return false
}

// withField returns a request's body with a field more, which must be a JSON
// object that has none of that name.
func withField(body []byte, field string) []byte {
	i := bytes.IndexByte(body, '{')
	if i < 0 {
		return body
	}
	if rest := bytes.TrimLeft(body[i+1:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
		field += ","
	}
	out := make([]byte, 0, len(body)+len(field))
	out = append(out, body[:i+1]...)
	out = append(out, field...)
	return append(out, body[i+1:]...)
}
