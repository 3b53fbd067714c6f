package worker

import (
	"encoding/json"
	"strings"
	"testing"

	"ollamoon/internal/engine"
	"ollamoon/internal/engine/enginetest"
	"ollamoon/store"
)

func TestQueueChoosesByTextWhereTokensAreNotKnown(t *testing.T) {
	q := newQueue(3)
	q.slots[0].text = []byte("one two three")
	q.slots[1].hold(counted(0, 300), 300)
	q.slots[1].text = []byte("four five six")
	q.slots[2].text, q.slots[2].tenant = []byte("seven eight nine"), "another"
	for _, c := range []struct {
		wait wait
		want int
	}{
		{wait{text: []byte("four five seven")}, 1},
		{wait{text: []byte("one three")}, 0},
		{wait{text: []byte("four nine"), tokens: counted(0, 500)}, 1},
		{wait{text: []byte("one two"), tokens: counted(7, 500)}, 0},
		{wait{text: []byte("four five six"), tokens: counted(7, 500)}, 0}, // tokens are surer
		{wait{text: []byte("seven eight nine")}, 0},
		{wait{text: []byte("seven"), tenant: "another"}, 2},
		{wait{}, 0},
	} {
		c.wait.want = anySlot
		if got := q.choose(&c.wait); got[0].id != c.want {
			t.Errorf("%s, %d tokens: slot %d, want %d", c.wait.text, len(c.wait.tokens), got[0].id, c.want)
		}
	}
}

// A prompt's text is that of the request's fields, however they are laid out, and
// its first bytes are those of a request that goes on.
func TestTextOfARequest(t *testing.T) {
	text := func(body string) string {
		t.Helper()
		r, err := readRequest([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return string(new(Worker).text(t.Context(), &r))
	}
	for body, want := range map[string]string{
		`{"prompt": "a b"}`:                          `"a b"`,
		`{"prompt": ["a b"], "n_predict": 1}`:        `"a b"`,
		`{"prompt": [1, 2]}`:                         `[1,2]`,
		`{"messages": [{"a": "b"}], "tools": ["c"]}`: `["c"][{"a":"b"}]`,
		`{"input": "x", "instructions": "y"}`:        `"y""x"`,
		`{}`:                                         ``,
	} {
		if got := text(body); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	if got := len(text(`{"prompt": "` + strings.Repeat("a", 2*maxText) + `"}`)); got != maxText {
		t.Errorf("%d bytes are kept, want %d", got, maxText)
	}
}

// Conversations on four slots reuse at least what they do on an engine alone,
// shorter than a page and longer, whether they are shared or not.
func TestSlotsAreChosenAsTheEngineDoes(t *testing.T) {
	small := enginetest.Small(t)
	args := []string{"-m", small, "-c", "8192", "-np", "4"}
	alone := start(t, nil, nil, args...)
	var wants []int
	for _, c := range chatsInTurn() {
		wants = append(wants, cachedOf(t, alone.send(alone.engine.HTTP, "http://engine"+c.path, c.body).body))
	}
	for name, s := range map[string]store.Store{"not shared": nil, "shared": newStore(t)} {
		t.Run(name, func(t *testing.T) {
			r := start(t, s, nil, args...)
			total := 0
			for i, c := range chatsInTurn() {
				got, want := cachedOf(t, r.post(c.path, c.body)), wants[i]
				total += got - want
				if got < want {
					t.Errorf("request %d, %s: reuses %d tokens, on the engine alone %d", i, c.path, got, want)
				}
			}
			t.Logf("%d tokens more are reused than on the engine alone", total)
		})
	}
}

// A call is a request to an endpoint.
type call struct {
	path string
	body map[string]any
}

// chatsInTurn are requests of conversations that take turns and grow past a page.
func chatsInTurn() []call {
	var calls []call
	ask := func(path, field string, prompt any) {
		calls = append(calls, call{path, map[string]any{
			field: prompt, "max_tokens": 8, "temperature": 0, "seed": 1, "ignore_eos": true,
		}})
	}
	message := func(role, content string) map[string]string {
		return map[string]string{"role": role, "content": content}
	}
	chats := map[string][]map[string]string{}
	for turn := range 6 {
		for _, who := range []string{"ada", "bob", "eve"} {
			words := strings.Repeat(who+" counts to ", 2+turn*turn) + "ten."
			chats[who] = append(chats[who], message("user", words))
			ask("/v1/chat/completions", "messages", append([]map[string]string{}, chats[who]...))
			chats[who] = append(chats[who], message("assistant", "One, two, "+who+"."))
		}
	}
	for turn := range 3 { // more of them than slots
		for _, who := range []string{"Once upon a time", "The weather", "Two men", "In the sea", "Of all kings", "My house"} {
			ask("/completion", "prompt", who+strings.Repeat(", as they say", 5+20*turn))
		}
	}
	return calls
}

// cachedOf is how many tokens of a prompt were reused.
func cachedOf(t *testing.T, answer []byte) int {
	t.Helper()
	var a struct{ Timings engine.Timings }
	if err := json.Unmarshal(answer, &a); err != nil || a.Timings.PromptTokens == 0 {
		t.Fatalf("answer %.500s: %v", answer, err)
	}
	return a.Timings.CacheTokens
}
