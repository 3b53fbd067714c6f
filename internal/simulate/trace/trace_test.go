package trace

import (
	"bytes"
	"encoding/json"
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
		pages                     *Pages
		counts, usable, published []int
		distinct, ideal           int
	}{
		{tr.Blocks(), []int{3, 2, 2}, []int{3, 2, 2}, []int{3, 2, 2}, 4, 3},
		{must(tr.Cut(512)), []int{2, 2, 1}, []int{2, 1, 1}, []int{2, 1, 1}, 2, 2},
		// A page that leaves no token is not used, one that leaves fewer than 64 not published.
		{must(tr.Cut(256)), []int{4, 4, 2}, []int{4, 3, 2}, []int{4, 3, 2}, 4, 5},
	} {
		var counts, usable, published []int
		for i := range c.pages.Prompts {
			q := &c.pages.Prompts[i]
			counts = append(counts, len(q.Pages))
			usable = append(usable, c.pages.Usable(q))
			published = append(published, c.pages.Published(q))
		}
		if !reflect.DeepEqual([][]int{counts, usable, published}, [][]int{c.counts, c.usable, c.published}) || c.pages.Distinct != c.distinct || c.pages.Ideal() != c.ideal {
			t.Errorf("pages of %d tokens: %v, %v, %v, %d distinct, %d ideal hits; want %+v", c.pages.Tokens, counts, usable, published, c.pages.Distinct, c.pages.Ideal(), c)
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

// A trace in small has the same blocks.
func TestScale(t *testing.T) {
	tr := &Trace{BlockTokens: 512, Requests: []Request{
		{TimeMS: 5, Input: 1100, Output: 100, Blocks: []int64{0, 1, 2}}, {TimeMS: 6, Input: 512, Output: 1, Blocks: []int64{0}}, {TimeMS: 7, Input: 513, Blocks: []int64{0, 3}},
	}}
	got, err := tr.Scale(256)
	want := &Trace{BlockTokens: 256, Requests: []Request{
		{TimeMS: 5, Input: 550, Output: 50, Blocks: []int64{0, 1, 2}}, {TimeMS: 6, Input: 256, Output: 1, Blocks: []int64{0}}, {TimeMS: 7, Input: 257, Blocks: []int64{0, 3}},
	}}
	if err != nil || !reflect.DeepEqual(got, want) || tr.Requests[0].Input != 1100 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := tr.Scale(0); !errors.Is(err, ErrTrace) {
		t.Errorf("blocks of no token: %v", err)
	}
	if n := len(got.First(2).Requests); n != 2 {
		t.Errorf("the first 2 are %d", n)
	}
}

// The small trace is one, and always the same; its beginning is that of a longer
// one.
func TestSmall(t *testing.T) {
	tr := Small(40, 256)
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, q := range tr.Requests {
		if err := encoder.Encode(q); err != nil {
			t.Fatal(err)
		}
	}
	read, err := Read(&lines, 0)
	if err != nil || !reflect.DeepEqual(read, tr) || !reflect.DeepEqual(Small(12, 256), tr.First(12)) {
		t.Errorf("%+v, %v", read, err)
	}
	p := must(tr.Cut(256))
	behind, least, most := 0, tr.Requests[0].Input, 0
	for i, q := range p.Prompts {
		least, most = min(least, q.Input), max(most, q.Input)
		if p.Published(&p.Prompts[i]) < p.Usable(&p.Prompts[i]) {
			behind++
		}
	}
	if part := float64(p.Ideal()) / float64(p.Total); part < 0.5 || part > 0.7 || behind < 2 || least < 256 || most > 1600 {
		t.Errorf("%.2f of the pages have been seen before, %d prompts end close behind a page, lengths are %d to %d", part, behind, least, most)
	}
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
