package worker

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"ollamoon/internal/simulate/trace"
	"ollamoon/prefix"
)

func numbered(from, n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(from + i)
	}
	return tokens
}

// What a worker logs becomes a trace in which what is equal is equal.
func TestRequestLogBecomesATrace(t *testing.T) {
	keys := prefix.Config{Model: "m", PageTokens: PageTokens}
	began := time.UnixMilli(1764607000123)
	var out bytes.Buffer
	log := NewRequestLog(&out)
	for i, tokens := range [][]int32{numbered(0, 600), append(numbered(0, 512), numbered(5000, 300)...), numbered(9, 256), numbered(0, 600)} {
		if err := log.add(began.Add(time.Duration(i)*time.Second), tokens, 7+i, keys); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.HasPrefix(out.String(), `{"time_ms":1764607000123,"prompt_tokens":600,"output_tokens":7,"page_tokens":256,"hash_ids":["`) {
		t.Errorf("logged %s", out.String())
	}
	var converted bytes.Buffer
	if _, _, err := trace.Convert(&converted, &out); err != nil {
		t.Fatal(err)
	}
	const want = `{"timestamp":0,"input_length":600,"output_length":7,"hash_ids":[0,1,2]}
{"timestamp":1000,"input_length":812,"output_length":8,"hash_ids":[0,1,3,4]}
{"timestamp":2000,"input_length":256,"output_length":9,"hash_ids":[5]}
{"timestamp":3000,"input_length":600,"output_length":10,"hash_ids":[0,1,6]}
`
	if converted.String() != want {
		t.Errorf("the trace is\n%s", converted.String())
	}
}

func TestRequestLogOfNothing(t *testing.T) {
	var none *RequestLog
	if err := none.add(time.Now(), numbered(0, 300), 1, prefix.Config{}); err != nil {
		t.Errorf("without a log: %v", err)
	}
	keys := prefix.Config{Model: "m", PageTokens: PageTokens}
	var out bytes.Buffer
	if err := NewRequestLog(&out).add(time.Now(), nil, 1, keys); err != nil || out.Len() > 0 {
		t.Errorf("a prompt that is not known: %q, %v", out.String(), err)
	}
	if err := NewRequestLog(brokenPipe{}).add(time.Now(), numbered(0, 300), 1, keys); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a log that cannot be written: %v", err)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Lines of requests that end together are whole.
func TestRequestLogLinesAreWhole(t *testing.T) {
	keys := prefix.Config{Model: "m", PageTokens: PageTokens}
	var out bytes.Buffer
	log := NewRequestLog(&out)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := log.add(time.UnixMilli(int64(i)), numbered(i, 300), i, keys); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, _, err := trace.Convert(io.Discard, &out); n != 20 || err != nil {
		t.Errorf("%d lines, %v", n, err)
	}
}
