package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"ollamoon/internal/simulate/trace"
	"ollamoon/prefix"
)

// A RequestLog writes a line for each prompt whose tokens are known, when it is
// answered: its lengths and what names its pages, no text. Package trace has the
// form, and makes a trace of it. A nil RequestLog writes nothing.
type RequestLog struct {
	mu struct {
		sync.Mutex
		out io.Writer
	}
}

// NewRequestLog returns one that writes each line with one call.
func NewRequestLog(out io.Writer) *RequestLog {
	l := &RequestLog{}
	l.mu.out = out
	return l
}

// add writes the line of a request that came at a time.
func (l *RequestLog) add(came time.Time, tokens []int32, generated int, keys prefix.Config) error {
	if l == nil || len(tokens) == 0 {
		return nil
	}
	pages, err := keys.Pages(tokens)
	if err != nil {
		return fmt.Errorf("naming a request's pages: %w", err)
	}
	entry := trace.Entry{
		TimeMS: came.UnixMilli(), Prompt: len(tokens), Output: generated,
		PageTokens: keys.PageTokens, Keys: make([]string, len(pages)),
	}
	for i, p := range pages {
		entry.Keys[i] = p.Hash.String()[:trace.KeyDigits]
	}
	line, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("encoding a request: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.mu.out.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("logging a request: %w", err)
	}
	return nil
}

// record logs a request that came at a time, when the engine has said that its
// prompt was what had been predicted.
func (w *Worker) record(came time.Time, s *sharer, tokens []int32, seen figures) {
	if s == nil || !seen.ok || seen.cached+seen.computed != len(tokens) {
		return
	}
	if err := w.config.Requests.add(came, tokens, seen.predicted, s.keys); err != nil {
		w.config.Logger.Warn("a request was not logged", "error", err)
	}
}
