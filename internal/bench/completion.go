package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ollamoon/internal/results"
	"ollamoon/internal/worker"
)

const (
	// answerTokens is the length of an answer, likeliest how many tokens are given
	// with their probabilities at each place.
	answerTokens = 16
	likeliest    = 5
)

// A question is a request for the likeliest continuation of a prompt.
type question struct {
	prompt any // a text, or its tokens
	tokens int // of the answer
	// likeliest is how many tokens are given with their probabilities at each place.
	likeliest int
	// reuse is false when nothing that is cached may be used.
	reuse bool
}

// A completion is what a client sees of an answer that is streamed.
type completion struct {
	ttftMS        float64 // from sending the request to the first token
	decodeMS      float64 // from the first token to the last
	text          string
	probabilities []json.RawMessage // a list of the likeliest tokens for each token
	cached        int               // tokens of the prompt, as the engine counts
	computeMS     float64           // of the prompt, as the engine says
	computed      int               // the rest of them
	timing        string            // the header that says what loading took
	source        string            // the header that says where tokens came from
}

// An event is one of a stream's.
type event struct {
	Content       string
	Probabilities []struct {
		Top json.RawMessage `json:"top_logprobs"`
	} `json:"completion_probabilities"`
	Stop    bool
	Timings struct {
		Cached   int     `json:"cache_n"`
		Computed int     `json:"prompt_n"`
		PromptMS float64 `json:"prompt_ms"`
	}
	Error json.RawMessage
}

// complete asks for the likeliest continuation of a prompt and its probabilities.
// With reuse false nothing that is cached is used.
func (l *llama) complete(ctx context.Context, prompt []int32, reuse bool) (*completion, error) {
	c, err := l.ask(ctx, question{prompt: prompt, tokens: answerTokens, likeliest: likeliest, reuse: reuse})
	if err == nil && len(c.probabilities) != answerTokens {
		err = fmt.Errorf("%s: %w: an answer of %d tokens, not %d", l.name, errUnexpected, len(c.probabilities), answerTokens)
	}
	return c, err
}

// ask asks a question.
func (l *llama) ask(ctx context.Context, q question) (*completion, error) {
	ctx, cancel := context.WithTimeout(ctx, modelTimeout)
	defer cancel()
	const path = "/completion"
	start := time.Now()
	response, err := l.send(ctx, http.MethodPost, path, map[string]any{
		"prompt": q.prompt, "n_predict": q.tokens, "ignore_eos": true, "temperature": 0,
		"n_probs": q.likeliest, "cache_prompt": q.reuse, "stream": true,
	})
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	c := &completion{timing: response.Header.Get(worker.TimingHeader), source: response.Header.Get(worker.TokensHeader)}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxAnswer)
	for done := false; !done && lines.Scan(); {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		now := milliseconds(start)
		if c.ttftMS == 0 {
			c.ttftMS = now
		}
		if done, err = c.add(data); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", l.name, path, err)
		}
		if !done {
			c.decodeMS = now - c.ttftMS
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", l.name, path, err)
	}
	return c, nil
}

// add takes an event and reports whether it is the last.
func (c *completion) add(data []byte) (last bool, err error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return false, fmt.Errorf("an event of the answer: %w", err)
	}
	if e.Error != nil {
		return false, fmt.Errorf("%w: %s", errUnexpected, e.Error)
	}
	c.text += e.Content
	for _, p := range e.Probabilities {
		c.probabilities = append(c.probabilities, p.Top)
	}
	if e.Stop {
		c.cached, c.computed, c.computeMS = e.Timings.Cached, e.Timings.Computed, e.Timings.PromptMS
	}
	return e.Stop, nil
}

// errHeader: a worker does not say what it loaded.
var errHeader = errors.New("an answer does not say what loading took")

// breakdown is where the time to the first token went, of a prompt of which
// something was loaded.
func (c *completion) breakdown() (b results.Breakdown, err error) {
	if _, err := fmt.Sscanf(c.timing, "lookup;dur=%g, load;dur=%g, restore;dur=%g", &b.Lookup, &b.Load, &b.Restore); err != nil {
		return b, fmt.Errorf("%w: %q: %w", errHeader, c.timing, err)
	}
	b.Compute = c.computeMS
	b.Other = max(0, c.ttftMS-b.Sum())
	return b, nil
}

// equals reports whether two answers are the same, digit for digit.
func (c *completion) equals(other *completion) bool {
	if c.text != other.text || len(c.probabilities) != len(other.probabilities) {
		return false
	}
	for i, p := range c.probabilities {
		if !bytes.Equal(p, other.probabilities[i]) {
			return false
		}
	}
	return true
}

// count is how many probabilities an answer has.
func (c *completion) count() (int, error) {
	n := 0
	for _, p := range c.probabilities {
		var tokens []json.RawMessage
		if err := json.Unmarshal(p, &tokens); err != nil {
			return 0, fmt.Errorf("probabilities of an answer: %w", err)
		}
		n += len(tokens)
	}
	return n, nil
}
