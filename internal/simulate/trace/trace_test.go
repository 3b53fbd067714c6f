package trace

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const example = `{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [0, 1]}

{"timestamp": 3000, "input_length": 600, "output_length": 0, "hash_ids": [0, 9]}
`

func TestRead(t *testing.T) {
	tr, err := Read(strings.NewReader(example), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []Request{{0, 1100, 5, []int64{0, 1, 2}}, {0, 1024, 1, []int64{0, 1}}, {3000, 600, 0, []int64{0, 9}}}
	if tr.BlockTokens != 512 || !reflect.DeepEqual(tr.Requests, want) {
		t.Errorf("read %+v", tr)
	}
	for text, place := range map[string]string{
		"":           "no request",
		"{":          "line 1",
		"\n[1]":      "line 2",
		example[:40]: "line 1",
		example + `{"timestamp": 2999, "input_length": 600, "output_length": 0, "hash_ids": [0, 9]}`:                "line 5: timestamp 2999 follows 3000",
		`{"timestamp": 0, "input_length": 0, "output_length": 0, "hash_ids": [0]}`:                                  "line 1",
		`{"timestamp": 0, "input_length": 1, "output_length": -1, "hash_ids": [0]}`:                                 "line 1",
		`{"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [0]}`:                                 "line 1",
		`{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": []}`:                                   "line 1: no hash_ids",
		`{"timestamp": 0, "input_length": 9, "output_length": 1, "hash_ids": [0]}`:                                  "say which",
		`{"timestamp": 0, "input_length": 700, "output_length": 1, "hash_ids": [0, 1, 2, 3, 4, 5, 6]}`:              "say what is",
		example + `{"timestamp": 3000, "input_length": 600, "output_length": 0, "hash_ids": [0, 1, 2, 3, 4, 5, 6]}`: "say what is",
	} {
		if _, err := Read(strings.NewReader(text), 0); !errors.Is(err, ErrTrace) || !strings.Contains(err.Error(), place) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Read(strings.NewReader(example), 256); !errors.Is(err, ErrTrace) || !strings.Contains(err.Error(), "would be 5") {
		t.Errorf("other blocks: %v", err)
	}
	if _, err := Read(strings.NewReader(example), -1); !errors.Is(err, ErrTrace) {
		t.Errorf("negative blocks: %v", err)
	}
	failure := errors.New("gone")
	if _, err := Read(&failing{failure}, 0); !errors.Is(err, failure) {
		t.Errorf("a reader that fails: %v", err)
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func TestPages(t *testing.T) {
	tr, err := Read(strings.NewReader(example), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pages           *Pages
		counts          []int
		distinct, ideal int
	}{
		{tr.Blocks(), []int{3, 2, 2}, 4, 3},
		{must(tr.Cut(512)), []int{2, 1, 1}, 2, 2},
		{must(tr.Cut(256)), []int{4, 3, 2}, 4, 5}, // a page that leaves fewer than 64 tokens is not shared
	} {
		var counts []int
		for _, q := range c.pages.Prompts {
			counts = append(counts, len(q.Pages))
		}
		if !reflect.DeepEqual(counts, c.counts) || c.pages.Distinct != c.distinct || c.pages.Ideal() != c.ideal {
			t.Errorf("pages of %d tokens: %v, %d distinct, %d ideal hits; want %+v", c.pages.Tokens, counts, c.pages.Distinct, c.pages.Ideal(), c)
		}
	}
	blocks := tr.Blocks()
	if n := blocks.Covered(&blocks.Prompts[1], 2); n != 1023 {
		t.Errorf("two blocks of a prompt of 1,024 tokens cover %d", n)
	}
	for _, size := range []int{0, -256, 300, 1024} {
		if _, err := tr.Cut(size); !errors.Is(err, ErrTrace) {
			t.Errorf("pages of %d tokens: %v", size, err)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestConvert(t *testing.T) {
	entry := func(ms int64, prompt int, keys ...string) string {
		return fmt.Sprintf(`{"time_ms": %d, "prompt_tokens": %d, "output_tokens": 7, "page_tokens": 256, "hash_ids": ["%s"]}`+"\n", ms, prompt, strings.Join(keys, `", "`))
	}
	// Two workers' logs behind each other.
	log := entry(5000, 600, "aa", "bb") + entry(9000, 512, "aa", "bb") + entry(7500, 300, "aa")
	var out bytes.Buffer
	requests, block, err := Convert(&out, strings.NewReader(log))
	if err != nil || requests != 3 || block != 256 {
		t.Fatalf("%d requests, blocks of %d tokens, %v", requests, block, err)
	}
	const want = `{"timestamp":0,"input_length":600,"output_length":7,"hash_ids":[0,1,2]}
{"timestamp":2500,"input_length":300,"output_length":7,"hash_ids":[0,3]}
{"timestamp":4000,"input_length":512,"output_length":7,"hash_ids":[0,1]}
`
	if out.String() != want {
		t.Errorf("converted to\n%s", out.String())
	}
	tr, err := Read(&out, 0)
	if err != nil || tr.BlockTokens != 256 || tr.Blocks().Ideal() != 3 {
		t.Errorf("the trace is read as %+v, %v", tr, err)
	}
	for text, place := range map[string]string{
		"":                                  "no line",
		"x":                                 "line 1",
		log + entry(1, 600, "aa"):           "line 4: 1 hash_ids",
		entry(1, -600, "aa", "bb"):          "line 1",
		entry(-1, 600, "aa", "bb"):          "line 1",
		strings.ReplaceAll(log, "256", "0"): "line 1: page_tokens",
		log + `{"time_ms": 1, "prompt_tokens": 100, "output_tokens": 7, "page_tokens": 512, "hash_ids": []}`: "pages of 512",
	} {
		if _, _, err := Convert(&out, strings.NewReader(text)); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), place) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What is read is a trace, whatever was there.
func FuzzRead(f *testing.F) {
	f.Add([]byte(example), 0)
	f.Add([]byte(example), 512)
	f.Fuzz(func(t *testing.T, data []byte, block int) {
		tr, err := Read(bytes.NewReader(data), block)
		if err != nil {
			return
		}
		p := tr.Blocks()
		if p.Ideal() > p.Total || p.Distinct > p.Total || p.Total == 0 || tr.BlockTokens <= 0 {
			t.Errorf("%d pages, %d distinct, %d ideal, blocks of %d", p.Total, p.Distinct, p.Ideal(), tr.BlockTokens)
		}
	})
}
