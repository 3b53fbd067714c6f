package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// An event is what matters of one of a stream.
type event struct {
	Content string
	Stop    bool
	Choices []struct {
		Text   string
		Delta  struct{ Content string }
		Reason *string `json:"finish_reason"`
	}
}

func (e event) text() string {
	if len(e.Choices) == 1 {
		return e.Choices[0].Text + e.Choices[0].Delta.Content
	}
	return e.Content
}

func (e event) terminal() bool { return e.Stop || len(e.Choices) == 1 && e.Choices[0].Reason != nil }

// events reads a stream; done counts its ends.
func (r *running) events(e exchange) (events []event, done int) {
	r.t.Helper()
	for line := range bytes.Lines(e.body) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		switch {
		case !ok:
		case string(data) == "[DONE]":
			done++
		default:
			var one event
			if err := json.Unmarshal(data, &one); err != nil || done > 0 {
				r.t.Fatalf("event %s after %d ends: %v", data, done, err)
			}
			events = append(events, one)
		}
	}
	return events, done
}

// An asked is a request both streamed and not, answered with pages of the store.
type asked struct {
	whole  event
	events []event
	chunks []string // the texts of events
	done   int
}

// both asks for a prompt, whose pages are in the store, in both ways.
func (r *running) both(path string, body object) asked {
	r.t.Helper()
	unstreamed, streamed := r.through(path, body), r.through(path, with(body, "stream", true))
	for _, e := range []exchange{unstreamed, streamed} {
		if e.header.Get(TokensHeader) == "" {
			r.t.Errorf("nothing was found for %.300s", e.body)
		}
	}
	var a asked
	var whole struct {
		event
		Choices []struct {
			Text    string
			Message struct{ Content string }
			Reason  *string `json:"finish_reason"`
		}
	}
	if err := json.Unmarshal(unstreamed.body, &whole); err != nil {
		r.t.Fatalf("%.300s: %v", unstreamed.body, err)
	}
	a.whole = whole.event
	if len(whole.Choices) == 1 {
		a.whole.Content = whole.Choices[0].Text + whole.Choices[0].Message.Content
	}
	a.events, a.done = r.events(streamed)
	for _, e := range a.events {
		a.chunks = append(a.chunks, e.text())
	}
	return a
}

// streams are requests of the kinds that stream in different ways, with pages in
// the store.
func (r *running) streams(prompt string) map[string]object {
	r.t.Helper()
	requests := map[string]object{
		"/completion":          {"prompt": prompt},
		"/v1/chat/completions": {"messages": []object{message("user", prompt)}},
	}
	for path, body := range requests {
		requests[path] = with(body, "temperature", 0)
		r.through(path, with(body, "n_predict", 1, "max_tokens", 1))
	}
	return requests
}

// No piece of a stop string of several tokens leaves, and what was held back
// because it might have become one is released when it does not.
func (r *running) stopStrings() {
	const said, stop, never = "one two three four five six", " three four", " three fourteen"
	for path, body := range r.streams(story(46, "sheep")) {
		body = with(body, "n_predict", 16, "max_tokens", 16, "grammar", `root ::= "`+said+`"`)
		for stop, want := range map[string]string{stop: "one two", never: said} {
			got := r.both(path, with(body, "stop", []string{stop}))
			if joined := strings.Join(got.chunks, ""); joined != want || got.whole.Content != want {
				r.t.Errorf("%s with %q to stop it: %q streamed, %q not, want %q", path, stop, joined, got.whole.Content, want)
			}
			if len(got.events) < 3 {
				r.t.Errorf("%s does not stream: %q", path, got.chunks)
			}
		}
	}
}

// Characters whose bytes are several tokens come whole.
func (r *running) wideCharacters() {
	const said = "🦙猫語한🏳️‍🌈é"
	for path, body := range r.streams(story(46, "llama")) {
		got := r.both(path, with(body, "n_predict", 48, "max_tokens", 48, "grammar", `root ::= "`+said+`"`))
		for _, chunk := range got.chunks {
			if !utf8.ValidString(chunk) || strings.ContainsRune(chunk, utf8.RuneError) {
				r.t.Errorf("%s: chunk %q", path, chunk)
			}
		}
		if joined := strings.Join(got.chunks, ""); joined != said || got.whole.Content != said {
			r.t.Errorf("%s: %q streamed, %q not", path, joined, got.whole.Content)
		}
	}
}

// A stream has one terminal object, its last, whatever its length; under /v1 an
// end follows it.
func (r *running) terminalObjects() {
	for path, body := range r.streams(story(46, "goose")) {
		for _, n := range []int{1, 2} {
			got := r.both(path, with(body, "n_predict", n, "max_tokens", n))
			terminal := slices.IndexFunc(got.events, event.terminal)
			if terminal < 0 || terminal != len(got.events)-1 {
				r.t.Errorf("%s of %d tokens: event %d of %d is terminal", path, n, terminal+1, len(got.events))
			}
			if want := map[bool]int{true: 1}[strings.HasPrefix(path, "/v1")]; got.done != want {
				r.t.Errorf("%s of %d tokens: %d ends, want %d", path, n, got.done, want)
			}
			if joined := strings.Join(got.chunks, ""); joined == "" || joined != got.whole.Content {
				r.t.Errorf("%s of %d tokens: %q streamed, %q not", path, n, joined, got.whole.Content)
			}
		}
	}
}

// found asks and returns how many tokens came from the store, of which the answer
// and its header say the same.
func (r *running) found(path string, body object) int {
	r.t.Helper()
	before := r.worker.Status().Pages
	e := r.through(path, with(body, "temperature", 0, "n_predict", 1, "max_tokens", 1))
	cached, _ := r.figures(e)
	want := ""
	if cached > 0 {
		want = fmt.Sprintf("store=%d", cached)
	}
	if got := e.header.Get(TokensHeader); got != want {
		r.t.Errorf("the header says %q, the answer %q", got, want)
	}
	if hit := r.worker.Status().Pages.PagesHit - before.PagesHit; int(hit)*PageTokens != cached {
		r.t.Errorf("%d pages were found, the answer says %d tokens", hit, cached)
	}
	return cached
}

// With another time at token 20 nothing is found; with another one at the tail
// all that is before it.
func (r *running) clocks() {
	at := func(before, clock, after string) object {
		return object{"prompt": before + " The time is " + clock + ". " + after}
	}
	head, tail := "You are a helpful assistant who answers in few words, and politely.", story(60, "hour")
	early, late := func(clock string) object { return at(head, clock, tail) }, func(clock string) object { return at(head+tail, clock, "") }
	for name, c := range map[string]struct {
		prompt func(clock string) object
		least  int
	}{"at the head": {early, 0}, "at the tail": {late, PageTokens}} {
		one, other := c.prompt("12:34:56"), c.prompt("21:03:45")
		same := common(r.promptTokens(one), r.promptTokens(other)) / PageTokens * PageTokens
		if same < c.least || same > 0 && c.least == 0 {
			r.t.Fatalf("a clock %s leaves %d tokens", name, same)
		}
		if got := r.found("/completion", one); got != 0 {
			r.t.Errorf("a clock %s: %d tokens found of a new prompt", name, got)
		}
		if got := r.found("/completion", other); got != same {
			r.t.Errorf("another time %s: %d tokens found, want %d", name, got, same)
		}
	}
}

func (r *running) promptTokens(body object) []int32 {
	r.t.Helper()
	tokens, err := r.engine.Tokenize(r.t.Context(), body["prompt"])
	if err != nil {
		r.t.Fatal(err)
	}
	return tokens
}

// Of a history without its thinking, what it has in common with the one that has
// it is found, in whole pages, and no more.
func (r *running) thinking() {
	const path = "/v1/chat/completions"
	history := func(thinking string) object {
		answer := message("assistant", story(12, "swan"))
		if thinking != "" {
			answer["reasoning_content"] = thinking
		}
		return object{"messages": []object{message("user", story(36, "mouse")), answer, message("user", "Go on.")}}
	}
	thought, bare := history("They want more of these."), history("")
	same := common(r.chatTokens(thought), r.chatTokens(bare)) / PageTokens * PageTokens
	if same == 0 {
		r.t.Fatal("the histories differ in their first page")
	}
	if got := r.found(path, thought); got != 0 {
		r.t.Errorf("%d tokens found of a new history", got)
	}
	if got := r.found(path, bare); got != same {
		r.t.Errorf("%d tokens found without thinking, want %d", got, same)
	}
	if got, want := r.found(path, thought), boundary(len(r.chatTokens(thought))); got != want {
		r.t.Errorf("%d tokens found of the same history, want %d", got, want)
	}
}
