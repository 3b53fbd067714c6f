package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// ErrTrace is wrapped by errors for what is not a trace.
var ErrTrace = errors.New("not a trace")

// A Request is one line of a trace.
type Request struct {
	TimeMS int64   `json:"timestamp"`
	Input  int     `json:"input_length"`  // tokens
	Output int     `json:"output_length"` // tokens
	Blocks []int64 `json:"hash_ids"`
}

// A Trace is requests in order of time.
type Trace struct {
	Requests    []Request
	BlockTokens int // of each block but a prompt's last
}

// maxLineBytes bounds a line: a prompt of 100 million tokens stays below it.
const maxLineBytes = 16 << 20

// maxTokens bounds lengths: well past any context.
const maxTokens = 1 << 30

// Read reads a trace of blocks of a number of tokens; 0 is to be inferred. The
// error names the first line that is wrong.
func Read(r io.Reader, blockTokens int) (*Trace, error) {
	if blockTokens < 0 || blockTokens > maxTokens {
		return nil, fmt.Errorf("%w: blocks of %d tokens", ErrTrace, blockTokens)
	}
	t := &Trace{BlockTokens: blockTokens}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 1<<16), maxLineBytes)
	number := 0
	for lines.Scan() {
		number++
		if len(lines.Bytes()) == 0 {
			continue
		}
		var q Request
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrTrace, number, err)
		}
		if err := t.add(q); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrTrace, number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading line %d of a trace: %w", number+1, err)
	}
	return t, t.settle()
}

// add appends a request that can be one.
func (t *Trace) add(q Request) error {
	switch {
	case q.Input <= 0 || q.Input > maxTokens || q.Output < 0 || q.Output > maxTokens:
		return fmt.Errorf("input_length %d and output_length %d", q.Input, q.Output)
	case len(q.Blocks) == 0:
		return errors.New("no hash_ids")
	case q.TimeMS < 0:
		return fmt.Errorf("timestamp %d", q.TimeMS)
	}
	if n := len(t.Requests); n > 0 && q.TimeMS < t.Requests[n-1].TimeMS {
		return fmt.Errorf("timestamp %d follows %d", q.TimeMS, t.Requests[n-1].TimeMS)
	}
	t.Requests = append(t.Requests, q)
	return nil
}

// settle infers the length of blocks where it is not given, and holds every
// request against it.
func (t *Trace) settle() error {
	if len(t.Requests) == 0 {
		return fmt.Errorf("%w: it has no request", ErrTrace)
	}
	if t.BlockTokens == 0 {
		var err error
		if t.BlockTokens, err = t.infer(); err != nil {
			return err
		}
	}
	for i, q := range t.Requests {
		if want := (q.Input + t.BlockTokens - 1) / t.BlockTokens; len(q.Blocks) != want {
			return fmt.Errorf("%w: request %d has %d hash_ids for %d tokens; blocks of %d tokens would be %d",
				ErrTrace, i+1, len(q.Blocks), q.Input, t.BlockTokens, want)
		}
	}
	return nil
}

// infer returns the power of 2 that all requests allow as a block's length.
func (t *Trace) infer() (int, error) {
	least, most := 1, math.MaxInt32
	for _, q := range t.Requests {
		n := len(q.Blocks)
		least = max(least, (q.Input+n-1)/n)
		if n > 1 {
			most = min(most, (q.Input-1)/(n-1))
		}
	}
	found := 0
	for size := 1; size <= most && size < math.MaxInt32/2; size *= 2 {
		if size < least {
			continue
		}
		if found > 0 {
			return 0, fmt.Errorf("%w: its blocks could have %d tokens or %d; say which", ErrTrace, found, size)
		}
		found = size
	}
	if found == 0 {
		return 0, fmt.Errorf("%w: no power of 2 is the number of tokens of its blocks; say what is", ErrTrace)
	}
	return found, nil
}
