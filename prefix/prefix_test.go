package prefix

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

func readGolden(t testing.TB) (cases []struct {
	Name       string
	Model      string
	PageTokens int    `json:"page_tokens"`
	KeyPrefix  string `json:"key_prefix"`
	Tokens     []int32
	Keys       []string
},
) {
	t.Helper()
	var file struct{ Cases json.RawMessage }
	data, err := os.ReadFile("testdata/page_keys_golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file.Cases, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 10 {
		t.Fatalf("the golden file has %d cases", len(cases))
	}
	return cases
}

func keys(pages []Page) []string {
	out := make([]string, 0, len(pages))
	for _, p := range pages {
		out = append(out, p.Key)
	}
	return out
}

func TestPagesMatchPullRequest2800(t *testing.T) {
	for _, c := range readGolden(t) {
		t.Run(c.Name, func(t *testing.T) {
			pages, err := Config{Model: c.Model, PageTokens: c.PageTokens, KeyPrefix: c.KeyPrefix}.Pages(c.Tokens)
			if err != nil {
				t.Fatal(err)
			}
			if got := keys(pages); !slices.Equal(got, c.Keys) {
				t.Errorf("keys\n%v\nwant\n%v", got, c.Keys)
			}
		})
	}
}

func TestDefaultKeyPrefix(t *testing.T) {
	pages, err := Config{Model: "m", PageTokens: 4}.Pages([]int32{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := pages[0].Key, "mc/ollama/m/dc90234fa9460d8b0df622ed269bf66b"; got != want {
		t.Errorf("key %s, want %s", got, want)
	}
	if pages[0].Hash.String()[:32] != "dc90234fa9460d8b0df622ed269bf66b" {
		t.Errorf("the key does not show its hash: %s", pages[0].Hash)
	}
}

func TestOneTokenChangesItsPageAndAllLater(t *testing.T) {
	tokens := make([]int32, 10*16)
	for i := range tokens {
		tokens[i] = rand.Int32()
	}
	c := Config{Model: "m", PageTokens: 16}
	before, _ := c.Pages(tokens)
	tokens[5*16+3]++
	after, _ := c.Pages(tokens)
	for i := range before {
		if same := before[i] == after[i]; same != (i < 5) {
			t.Errorf("page %d: same is %v", i, same)
		}
	}
}

func TestValidate(t *testing.T) {
	if _, err := (Config{PageTokens: 4}).Pages(nil); !errors.Is(err, ErrNoModel) {
		t.Errorf("no model: %v", err)
	}
	for _, n := range []int{0, -1} {
		if _, err := (Config{Model: "m", PageTokens: n}).Pages(nil); !errors.Is(err, ErrPageTokens) {
			t.Errorf("%d tokens a page: %v", n, err)
		}
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		present []bool
		want    int
	}{{nil, 0}, {[]bool{false, true}, 0}, {[]bool{true, true, false, true}, 2}, {[]bool{true, true}, 2}} {
		if got := Run(c.present); got != c.want {
			t.Errorf("Run(%v) = %d, want %d", c.present, got, c.want)
		}
	}
}

// A prompt of 131,072 tokens in pages of 256: what a lookup of a very long
// prompt costs before anything is asked of a store.
func BenchmarkPages131072(b *testing.B) {
	tokens := make([]int32, 131072)
	for i := range tokens {
		tokens[i] = rand.Int32()
	}
	c := Config{Model: "model@0123456789abcdef0123456789abcdef", PageTokens: 256}
	b.SetBytes(int64(4 * len(tokens)))
	for b.Loop() {
		if _, err := c.Pages(tokens); err != nil {
			b.Fatal(err)
		}
	}
}
