package worker

import (
	"encoding/json"
	"errors"
	"testing"
)

func TestConversions(t *testing.T) {
	messages := func(body []byte) (map[string]any, error) { return chatOfMessages(body) }
	responses := func(body []byte) (map[string]any, error) { return chatOfResponses(body) }
	for name, c := range map[string]struct {
		convert    func([]byte) (map[string]any, error)
		body, want string // want is empty where it cannot be told
	}{
		"messages of text": {
			messages, `{"system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant"}],"max_tokens":5}`,
			`{"messages":[{"content":"s","role":"system"},{"role":"user","content":"a"}]}`,
		},
		"a stamp": {
			messages, `{"system":"x-anthropic-billing-header: a; cch=12345;b","messages":[]}`,
			`{"messages":[{"content":"x-anthropic-billing-header: a; cch=fffff;b","role":"system"}]}`,
		},
		"no stamp": {
			messages, `{"system":[{"type":"text","text":"x-anthropic-billing-header: cch=12"},{"type":"text","text":"cch=12345;"}],"messages":[]}`,
			`{"messages":[{"content":"x-anthropic-billing-header: cch=12cch=12345;","role":"system"}]}`,
		},
		"a tool": {
			messages, `{"messages":[],"tools":[{"name":"f","input_schema":{"b":1,"a":2}}],"tool_choice":{"type":"tool","name":"f"},"chat_template_kwargs":{"x":1}}`,
			`{"chat_template_kwargs":{"x":1},"messages":null,"tool_choice":"required","tools":[{"function":{"description":"","name":"f","parameters":{"b":1,"a":2}},"type":"function"}]}`,
		},
		"a call and results": {
			messages,
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"tool_use","id":"1","name":"f","input":{ "b": 1, "a": 2 }}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]},{"type":"tool_result","tool_use_id":"2"}]}]}`,
			`{"messages":[{"content":"","reasoning_content":"t","role":"assistant","tool_calls":[{"function":{"arguments":"{\"b\":1,\"a\":2}","name":"f"},"id":"1","type":"function"}]},` +
				`{"content":"xy","role":"tool","tool_call_id":"1"},{"content":"","role":"tool","tool_call_id":"2"}]}`,
		},
		"an image":           {messages, `{"messages":[{"role":"user","content":[{"type":"image"}]}]}`, ""},
		"an image as result": {messages, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image"}]}]}]}`, ""},
		"no messages":        {messages, `{"messages":"a"}`, ""},
		"a text": {
			responses, `{"input":"a","instructions":"i","model":"m","stream":true,"max_output_tokens":3,"reasoning":{"effort":"low"}}`,
			`{"messages":[{"content":"i","role":"system"},{"content":"a","role":"user"}],"model":"m","reasoning_effort":"low"}`,
		},
		"items": {
			responses,
			`{"input":[{"role":"user","content":"a"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b"}]},` +
				`{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"o"}],"tools":[{"type":"function","name":"f"},{"type":"web"}]}`,
			`{"messages":[{"content":[{"text":"a","type":"text"}],"role":"user"},` +
				`{"content":[{"text":"b","type":"text"}],"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"1","type":"function"}]},` +
				`{"content":"o","role":"tool","tool_call_id":"1"}],"tools":[{"function":{"name":"f","strict":true},"type":"function"}]}`,
		},
		"an input image": {responses, `{"input":[{"role":"user","content":[{"type":"input_image"}]}]}`, ""},
		"a reasoning":    {responses, `{"input":[{"type":"reasoning","summary":[]}]}`, ""},
		"no input":       {responses, `{}`, ""},
	} {
		got, err := c.convert([]byte(c.body))
		if c.want == "" {
			if !errors.Is(err, errUnpredictable) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			continue
		}
		data, encoding := json.Marshal(got)
		if err := errors.Join(err, encoding); err != nil || string(data) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, data, c.want)
		}
	}
}

func TestPrompts(t *testing.T) {
	for body, want := range map[string]prompt{
		`"a"`:         {text: json.RawMessage(`"a"`)},
		`[1,2]`:       {tokens: []int32{1, 2}},
		`[[1,2]]`:     {tokens: []int32{1, 2}},
		`["a"]`:       {text: json.RawMessage(`"a"`)},
		`["a",1]`:     {text: json.RawMessage(`["a",1]`)},
		`["a","b"]`:   {several: true},
		`[[1],[2]]`:   {several: true},
		`[1,{"a":1}]`: {several: true},
		`{"a":1}`:     {},
		`null`:        {},
		`7`:           {},
	} {
		var got prompt
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if g, w := asJSON(t, got), asJSON(t, want); g != w {
			t.Errorf("%s: %s, want %s", body, g, w)
		}
	}
	several := request{Prompt: prompt{several: true}}
	if several.slotWanted() != allSlots {
		t.Error("several prompts take one slot")
	}
}

func asJSON(t *testing.T, p prompt) string {
	t.Helper()
	data, err := json.Marshal([]any{p.tokens, p.text, p.several})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
