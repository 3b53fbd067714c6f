package worker

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Requests in other forms than a chat completion's are made into one here, in the
// way of llama.cpp's tools/server/server-chat.cpp, as far as their prompt depends
// on it. What is not text is refused.

// chatOfMessages converts a request in Anthropic's form.
func chatOfMessages(body []byte) (map[string]any, error) {
	var in struct {
		System   json.RawMessage   `json:"system"`
		Messages []json.RawMessage `json:"messages"`
		Tools    []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Schema      json.RawMessage `json:"input_schema"`
		} `json:"tools"`
		Choice struct {
			Type string `json:"type"`
		} `json:"tool_choice"`
		Options json.RawMessage `json:"chat_template_kwargs"`
	}
	if json.Unmarshal(body, &in) != nil {
		return nil, unpredictable("no messages in Anthropic's form")
	}
	var messages []any
	if present(in.System) {
		messages = append(messages, map[string]any{"role": "system", "content": systemText(in.System)})
	}
	for _, raw := range in.Messages {
		converted, err := ofMessage(raw)
		if err != nil {
			return nil, err
		}
		messages = append(messages, converted...)
	}
	chat := map[string]any{"messages": messages}
	var tools []any
	for _, t := range in.Tools {
		function := map[string]any{"name": t.Name, "description": t.Description, "parameters": orEmpty(t.Schema)}
		tools = append(tools, map[string]any{"type": "function", "function": function})
	}
	if in.Tools != nil {
		chat["tools"] = tools
	}
	switch in.Choice.Type {
	case "auto":
		chat["tool_choice"] = "auto"
	case "any", "tool":
		chat["tool_choice"] = "required"
	}
	if present(in.Options) {
		chat["chat_template_kwargs"] = in.Options
	}
	return chat, nil
}

// present reports whether a field is there and not null.
func present(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// systemText is an Anthropic system prompt: a string, or blocks of text.
func systemText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return withoutStamp(text)
	}
	var blocks []block
	if json.Unmarshal(raw, &blocks) != nil {
		return ""
	}
	var b strings.Builder
	for _, block := range blocks {
		if block.Type == "text" {
			b.WriteString(withoutStamp(block.Text))
		}
	}
	return b.String()
}

// withoutStamp puts fffff in the place of the stamp that some clients write into
// their system prompt anew for each request, as the engine does.
func withoutStamp(text string) string {
	const head, stamp, digits = "x-anthropic-billing-header:", "cch=", 5
	if !strings.HasPrefix(text, head) {
		return text
	}
	at := strings.Index(text, stamp) + len(stamp)
	if at < len(stamp) || at+digits >= len(text) || text[at+digits] != ';' {
		return text
	}
	return text[:at] + strings.Repeat("f", digits) + text[at+digits:]
}

// A block is a part of a message in Anthropic's form.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// ofMessage converts a message in Anthropic's form, which may hold several
// results of tools.
func ofMessage(raw json.RawMessage) ([]any, error) {
	var in struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return nil, unpredictable("a message that is none")
	}
	if len(in.Content) == 0 && in.Role == "assistant" {
		return nil, nil
	}
	if len(in.Content) == 0 || in.Content[0] != '[' {
		return []any{raw}, nil
	}
	var blocks []json.RawMessage
	if json.Unmarshal(in.Content, &blocks) != nil {
		return nil, unpredictable("content that is no list of blocks")
	}
	var content, calls, results []any
	var thinking string
	for _, rawBlock := range blocks {
		var b block
		if json.Unmarshal(rawBlock, &b) != nil {
			return nil, unpredictable("a block that is none")
		}
		switch b.Type {
		case "text":
			content = append(content, rawBlock)
		case "thinking":
			thinking += b.Thinking
		case "tool_use":
			calls = append(calls, toolCall(b.ID, b.Name, compact(orEmpty(b.Input))))
		case "tool_result":
			text, err := resultText(b.Content)
			if err != nil {
				return nil, err
			}
			results = append(results, toolResult(b.ToolUseID, text))
		default:
			return nil, unpredictable("a block of type " + b.Type)
		}
	}
	if content == nil && calls == nil && thinking == "" {
		return results, nil
	}
	message := map[string]any{"role": in.Role, "content": ""}
	if content != nil {
		message["content"] = content
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	if thinking != "" {
		message["reasoning_content"] = thinking
	}
	return append([]any{message}, results...), nil
}

func toolCall(id, name, arguments string) any {
	return map[string]any{"id": id, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}
}

func toolResult(id string, content any) map[string]any {
	return map[string]any{"role": "tool", "tool_call_id": id, "content": content}
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// resultText is what a tool returned: a string, blocks of text, or nothing.
func resultText(raw json.RawMessage) (string, error) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var blocks []block
	if json.Unmarshal(raw, &blocks) != nil {
		return "", nil // the engine takes it for an empty one
	}
	for _, b := range blocks {
		if b.Type != "text" {
			return "", unpredictable("a result of type " + b.Type)
		}
		text += b.Text
	}
	return text, nil
}
