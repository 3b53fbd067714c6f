package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// similar returns which part of a prompt a slot holds: by tokens, or by text where
// the tokens of one of them are not known.
func (w *wait) similar(s *slot) float64 {
	switch {
	case s.tenant != w.tenant:
		return 0
	case len(s.tokens) > 0 && len(w.tokens) > 0:
		return float64(common(s.tokens, w.tokens)) / float64(len(w.tokens))
	case len(w.text) > 0:
		return float64(common(s.text, w.text)) / float64(len(w.text))
	}
	return 0
}

// maxText bounds what is kept of a prompt's text.
const maxText = 128 << 10

// text returns a request's prompt as its body writes it, in the order of most
// templates; the first tokens of two requests are the same as far as their texts
// are. A chat begins with what the template writes before it.
func (w *Worker) text(ctx context.Context, r *request) []byte {
	var text []byte
	if w.config.Slots > 1 && (r.Messages != nil || r.Input != nil) && !r.instructed() {
		text = w.lead.of(ctx, w)
	}
	for _, part := range [][]byte{
		r.Tools, r.System, r.Instructions, r.Messages, r.Input, r.InputExtra, r.InputPrefix, r.Prompt.raw,
	} {
		text = append(text, part[:min(len(part), max(maxText-len(text), 0))]...)
	}
	return text
}

// instructed reports whether a chat has its own text in the place of the system's
// prompt.
func (r *request) instructed() bool {
	if r.Tools != nil || r.System != nil || r.Instructions != nil {
		return true
	}
	var first struct{ Role string }
	d := json.NewDecoder(bytes.NewReader(r.Messages))
	if _, err := d.Token(); err != nil || d.Decode(&first) != nil {
		return false
	}
	return first.Role == "system" || first.Role == "developer"
}

// leadPatience bounds the one question after a lead.
const leadPatience = 5 * time.Second

// A lead is what the engine's template writes before a chat's first message.
type lead struct {
	once sync.Once
	text string
}

// of asks the engine once. A template that refuses a chat has no lead.
func (l *lead) of(ctx context.Context, w *Worker) []byte {
	l.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leadPatience)
		defer cancel()
		const word = "ollamoon"
		prompt, err := w.config.Engine.ApplyTemplate(ctx, []byte(`{"messages":[{"role":"user","content":"`+word+`"}]}`))
		if before, _, ok := strings.Cut(prompt, word); err == nil && ok {
			l.text = before
		}
	})
	return []byte(l.text)
}

// maxReplaced bounds how many texts are kept of conversations without a slot.
const maxReplaced = 32

// replaced are the texts of conversations whose slot went to another one, which
// the engine may remember (--cache-ram). It does not look there for a request that
// names a slot in which nothing is.
type replaced struct {
	mu struct {
		sync.Mutex
		texts [][]byte // the oldest first
	}
}

// put notes that a slot goes from one conversation to another: the engine remembers
// one of which it drops most.
func (r *replaced) put(text, next []byte) {
	if 2*common(text, next) >= len(text) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// One that goes on takes the place of its beginning.
	r.mu.texts = slices.DeleteFunc(r.mu.texts, func(t []byte) bool { return 2*common(t, text) >= len(t) })
	r.mu.texts = append(r.mu.texts, text)
	if len(r.mu.texts) > maxReplaced {
		r.mu.texts = slices.Delete(r.mu.texts, 0, 1)
	}
}

// has reports whether the engine may bring back a part of a prompt that counts: it
// brings back nothing of which it would drop most.
func (r *replaced) has(text []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.mu.texts, func(t []byte) bool {
		n := common(t, text)
		return 10*n > len(text) && 4*n >= len(t)
	})
}
