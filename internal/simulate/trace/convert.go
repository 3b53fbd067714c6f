package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// An Entry is a line of a request log.
type Entry struct {
	TimeMS     int64    `json:"time_ms"` // when the request came, in Unix time
	Prompt     int      `json:"prompt_tokens"`
	Output     int      `json:"output_tokens"`
	PageTokens int      `json:"page_tokens"`
	Keys       []string `json:"hash_ids"` // of its full pages, cut to KeyDigits
}

// KeyDigits is how much of a page's hash a request log has: 64 bits tell the
// pages of any log apart.
const KeyDigits = 16

// ErrLog is wrapped by errors for what is not a request log.
var ErrLog = errors.New("not a request log")

// Convert writes the trace that a request log describes, and returns how many
// requests it has and how many tokens its blocks.
func Convert(w io.Writer, log io.Reader) (requests, blockTokens int, err error) {
	entries, err := readLog(log)
	if err != nil {
		return 0, 0, err
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.TimeMS, b.TimeMS) })
	numbers := make(map[string]int64)
	next := int64(0)
	number := func() int64 { next++; return next - 1 }
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	for _, e := range entries {
		q := Request{TimeMS: e.TimeMS - entries[0].TimeMS, Input: e.Prompt, Output: e.Output}
		for _, key := range e.Keys {
			id, known := numbers[key]
			if !known {
				id = number()
				numbers[key] = id
			}
			q.Blocks = append(q.Blocks, id)
		}
		if e.Prompt%e.PageTokens != 0 {
			q.Blocks = append(q.Blocks, number())
		}
		if err := encoder.Encode(q); err != nil {
			return 0, 0, fmt.Errorf("writing a trace: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return 0, 0, fmt.Errorf("writing a trace: %w", err)
	}
	return len(entries), entries[0].PageTokens, nil
}

func readLog(log io.Reader) ([]Entry, error) {
	var entries []Entry
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 1<<16), maxLineBytes)
	number := 0
	for lines.Scan() {
		number++
		if len(lines.Bytes()) == 0 {
			continue
		}
		var e Entry
		err := json.Unmarshal(lines.Bytes(), &e)
		if err == nil {
			err = e.check()
		}
		if err == nil && len(entries) > 0 && e.PageTokens != entries[0].PageTokens {
			err = fmt.Errorf("pages of %d tokens after pages of %d", e.PageTokens, entries[0].PageTokens)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrLog, number, err)
		}
		entries = append(entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading line %d of a request log: %w", number+1, err)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%w: it has no line", ErrLog)
	}
	return entries, nil
}

func (e *Entry) check() error {
	switch {
	case e.Prompt <= 0 || e.Output < 0 || e.TimeMS < 0:
		return fmt.Errorf("prompt_tokens %d, output_tokens %d, time_ms %d", e.Prompt, e.Output, e.TimeMS)
	case e.PageTokens <= 0:
		return fmt.Errorf("page_tokens %d", e.PageTokens)
	case len(e.Keys) != e.Prompt/e.PageTokens:
		return fmt.Errorf("%d hash_ids for %d tokens in pages of %d", len(e.Keys), e.Prompt, e.PageTokens)
	}
	return nil
}
