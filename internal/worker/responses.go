package worker

import (
	"encoding/json"
	"slices"
)

// chatOfResponses converts a request in the form of OpenAI's responses.
func chatOfResponses(body []byte) (map[string]any, error) {
	var in struct {
		Input        json.RawMessage   `json:"input"`
		Instructions *string           `json:"instructions"`
		Tools        []json.RawMessage `json:"tools"`
		Reasoning    struct {
			Effort json.RawMessage `json:"effort"`
		} `json:"reasoning"`
	}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(body, &in) != nil || json.Unmarshal(body, &fields) != nil {
		return nil, unpredictable("no request in the form of responses")
	}
	chat := map[string]any{}
	for name, value := range fields {
		switch name {
		case "input", "instructions", "tools", "reasoning", "max_output_tokens", "stream":
		default:
			chat[name] = value
		}
	}
	messages := []map[string]any{}
	if in.Instructions != nil {
		messages = append(messages, map[string]any{"role": "system", "content": *in.Instructions})
	}
	messages, err := withInput(messages, in.Input)
	if err != nil {
		return nil, err
	}
	chat["messages"] = messages
	if tools, err := functions(in.Tools); err != nil {
		return nil, err
	} else if tools != nil {
		chat["tools"] = tools
	}
	if present(in.Reasoning.Effort) {
		chat["reasoning_effort"] = in.Reasoning.Effort
	}
	return chat, nil
}

// functions converts tools that are functions; the engine leaves out others.
func functions(tools []json.RawMessage) ([]any, error) {
	var converted []any
	for _, raw := range tools {
		function := map[string]json.RawMessage{}
		if json.Unmarshal(raw, &function) != nil {
			return nil, unpredictable("a tool that is none")
		}
		if string(function["type"]) != `"function"` {
			continue
		}
		delete(function, "type")
		if _, ok := function["strict"]; !ok {
			function["strict"] = json.RawMessage("true")
		}
		converted = append(converted, map[string]any{"type": "function", "function": function})
	}
	return converted, nil
}

// withInput appends an input, a text or a list of items, to messages.
func withInput(messages []map[string]any, input json.RawMessage) ([]map[string]any, error) {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return append(messages, map[string]any{"role": "user", "content": text}), nil
	}
	var items []json.RawMessage
	if json.Unmarshal(input, &items) != nil {
		return nil, unpredictable("an input that is neither text nor a list")
	}
	for _, raw := range items {
		var err error
		if messages, err = withItem(messages, raw); err != nil {
			return nil, err
		}
	}
	return messages, nil
}

// withItem appends an item of an input to messages: a message of its own, or a
// part of the assistant's last one.
func withItem(messages []map[string]any, raw json.RawMessage) ([]map[string]any, error) {
	var item struct {
		Type      string          `json:"type"`
		Role      string          `json:"role"`
		Content   json.RawMessage `json:"content"`
		CallID    string          `json:"call_id"`
		Name      string          `json:"name"`
		Arguments string          `json:"arguments"`
		Output    json.RawMessage `json:"output"`
	}
	if json.Unmarshal(raw, &item) != nil {
		return nil, unpredictable("an item that is none")
	}
	switch {
	case item.Role == "user" || item.Role == "system" || item.Role == "developer":
		parts, err := texts(item.Content, "input_text")
		return append(messages, map[string]any{"role": item.Role, "content": parts}), err
	case item.Role == "assistant" && item.Type == "message":
		parts, err := texts(item.Content, "output_text", "input_text")
		if len(messages) > 0 && messages[len(messages)-1]["role"] == "assistant" {
			return nil, unpredictable("two messages of the assistant in turn")
		}
		return append(messages, map[string]any{"role": item.Role, "content": parts}), err
	case item.Type == "function_call":
		last := map[string]any{"role": "assistant"}
		if n := len(messages); n > 0 && messages[n-1]["role"] == "assistant" {
			last = messages[n-1]
		} else {
			messages = append(messages, last)
		}
		calls, _ := last["tool_calls"].([]any)
		last["tool_calls"] = append(calls, toolCall(item.CallID, item.Name, item.Arguments))
		return messages, nil
	case item.Type == "function_call_output":
		var text string
		if json.Unmarshal(item.Output, &text) == nil {
			return append(messages, toolResult(item.CallID, text)), nil
		}
		parts, err := texts(item.Output, "input_text")
		return append(messages, toolResult(item.CallID, parts)), err
	}
	return nil, unpredictable("an item of type " + item.Type)
}

// texts converts a text, or parts of these types, to parts of a chat's message.
func texts(content json.RawMessage, types ...string) ([]any, error) {
	part := func(text string) any { return map[string]any{"type": "text", "text": text} }
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []any{part(text)}, nil
	}
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		return nil, unpredictable("content that is neither text nor a list")
	}
	parts := []any{}
	for _, b := range blocks {
		if !slices.Contains(types, b.Type) {
			return nil, unpredictable("content of type " + b.Type)
		}
		parts = append(parts, part(b.Text))
	}
	return parts, nil
}
