package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"ollamoon/internal/engine"
)

// errUnpredictable is wrapped when a request's tokens cannot be told before the
// engine runs it; such a request is not shared.
var errUnpredictable = errors.New("worker: tokens cannot be predicted")

// A request is what a completion's body says that matters here.
type request struct {
	// What a prompt is made of, in the order of most templates.
	Tools        json.RawMessage `json:"tools"`
	System       json.RawMessage `json:"system"`
	Instructions json.RawMessage `json:"instructions"`
	Messages     json.RawMessage `json:"messages"`
	Input        json.RawMessage `json:"input"`
	InputExtra   json.RawMessage `json:"input_extra"`
	InputPrefix  json.RawMessage `json:"input_prefix"`
	Prompt       prompt          `json:"prompt"`

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
	case r.N > 1 || r.NCmpl > 1 || r.Prompt.several:
		return allSlots
	case r.IDSlot != nil && *r.IDSlot >= 0:
		return *r.IDSlot
	}
	return anySlot
}

// A prompt is what a request's field of that name holds: text, tokens, or text
// and tokens mixed; or several of these.
type prompt struct {
	tokens  []int32         // if it is nothing but tokens
	text    json.RawMessage // if it has text: what the engine makes tokens of
	several bool
	raw     json.RawMessage // as it came
}

// UnmarshalJSON takes everything; what is no prompt the engine refuses.
func (p *prompt) UnmarshalJSON(data []byte) error {
	*p = prompt{raw: bytes.Clone(data)}
	switch data[0] {
	case '"':
		p.text = p.raw
	case '[':
		if json.Unmarshal(data, &p.tokens) == nil {
			return nil
		}
		p.tokens = nil
		var parts []json.RawMessage
		if err := json.Unmarshal(data, &parts); err != nil {
			return err
		}
		p.list(parts)
	}
	return nil
}

// list takes a list, as the engine does: one that has a number in it is one
// prompt of tokens and texts, any other is a list of prompts.
func (p *prompt) list(parts []json.RawMessage) {
	numbers, texts := 0, 0
	for _, part := range parts {
		switch c := part[0]; {
		case c == '"':
			texts++
		case c == '-' || c >= '0' && c <= '9':
			numbers++
		}
	}
	switch {
	case numbers > 0 && numbers+texts == len(parts):
		p.text = p.raw
	case numbers == 0 && len(parts) == 1:
		_ = p.UnmarshalJSON(parts[0]) // it is JSON
	default:
		p.several = len(parts) > 1
	}
}

// predict returns the tokens that the engine will make of a request.
type predict func(ctx context.Context, c *engine.Client, r *request, body []byte) ([]int32, error)

// predictions by path; a path with nil is a completion whose tokens are not
// predicted, and which is therefore not shared: only the engine knows the tokens
// that stand around an infill's parts, and how much of these it takes.
var predictions = map[string]predict{
	"/completion":          predictPrompt,
	"/completions":         predictPrompt,
	"/v1/completions":      predictPrompt,
	"/chat/completions":    predictChat,
	"/v1/chat/completions": predictChat,
	"/v1/messages":         predictMessages,
	"/v1/responses":        predictResponses,
	"/responses":           predictResponses,
	"/infill":              nil,
}

func unpredictable(why string) error { return fmt.Errorf("%w: %s", errUnpredictable, why) }

// predictPrompt takes one prompt.
func predictPrompt(ctx context.Context, c *engine.Client, r *request, _ []byte) ([]int32, error) {
	switch {
	case r.Prompt.tokens != nil:
		return r.Prompt.tokens, nil
	case r.Prompt.text != nil:
		return c.Tokenize(ctx, r.Prompt.text)
	}
	return nil, unpredictable("no prompt of text or tokens, or several")
}

// predictChat lets the engine apply its template.
func predictChat(ctx context.Context, c *engine.Client, r *request, body []byte) ([]int32, error) {
	if !textOnly(r.Messages) {
		return nil, unpredictable("other than text in the prompt")
	}
	prompt, err := c.ApplyTemplate(ctx, body)
	if err != nil {
		return nil, err
	}
	return c.Tokenize(ctx, prompt)
}

// predictMessages takes a request in Anthropic's form, which the engine's
// template call does not know.
func predictMessages(ctx context.Context, c *engine.Client, _ *request, body []byte) ([]int32, error) {
	chat, err := chatOfMessages(body)
	return predictConverted(ctx, c, chat, err, "/v1/messages/count_tokens", body)
}

// predictResponses takes a request in the form of OpenAI's responses, which the
// engine's template call does not know either.
func predictResponses(ctx context.Context, c *engine.Client, _ *request, body []byte) ([]int32, error) {
	chat, err := chatOfResponses(body)
	return predictConverted(ctx, c, chat, err, "/v1/responses/input_tokens", body)
}

// predictConverted takes a chat that was made of a body in another form, unless
// the engine, asked under count, makes another number of tokens of that body.
func predictConverted(ctx context.Context, c *engine.Client, chat map[string]any, err error, count string, body []byte) ([]int32, error) {
	if err != nil {
		return nil, err
	}
	converted, err := json.Marshal(chat)
	if err != nil {
		return nil, unpredictable(err.Error())
	}
	prompt, err := c.ApplyTemplate(ctx, converted)
	if err != nil {
		return nil, err
	}
	tokens, err := c.Tokenize(ctx, prompt)
	if err != nil {
		return nil, err
	}
	n, err := c.CountTokens(ctx, count, body)
	if err != nil {
		return nil, err
	}
	if n != len(tokens) {
		return nil, unpredictable("the engine converts it in another way")
	}
	return tokens, nil
}

// textOnly reports whether all parts of a chat's messages are text.
func textOnly(messages json.RawMessage) bool {
	var list []struct {
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(messages, &list) != nil {
		return false
	}
	for _, m := range list {
		if len(m.Content) == 0 || m.Content[0] != '[' {
			continue
		}
		var parts []struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(m.Content, &parts) != nil {
			return false
		}
		for _, p := range parts {
			if p.Type != "text" {
				return false
			}
		}
	}
	return true
}

// readRequest reads a body as the engine does: names count by their case, and the
// last of several fields of a name. It fails when the body is no JSON object, or a
// field of interest has another type.
func readRequest(body []byte) (request, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return request{}, err
	}
	known := map[string]json.RawMessage{}
	for i := range reflect.TypeFor[request]().NumField() {
		name := reflect.TypeFor[request]().Field(i).Tag.Get("json")
		if value, ok := fields[name]; ok {
			known[name] = value
		}
	}
	exact, err := json.Marshal(known)
	if err != nil {
		return request{}, err
	}
	var r request
	err = json.Unmarshal(exact, &r)
	return r, err
}

// withField returns a request's body, a JSON object, with a field more: the last
// one, which counts before all others of its name.
func withField(body []byte, field string) []byte {
	i := bytes.LastIndexByte(body, '}')
	if i < 0 {
		return body
	}
	if before := bytes.TrimRight(body[:i], " \t\r\n"); !bytes.HasSuffix(before, []byte("{")) {
		field = "," + field
	}
	out := make([]byte, 0, len(body)+len(field))
	out = append(out, body[:i]...)
	out = append(out, field...)
	return append(out, body[i:]...)
}
