package prefix

import (
	"slices"
	"testing"
)

// Pages in a common beginning have the common model's keys, all others their own
// model's, also where the prompts go on alike.
func TestCommonBeginnings(t *testing.T) {
	const page = 4
	tokens := make([]int32, 5*page)
	for i := range tokens {
		tokens[i] = int32(i * 3)
	}
	keys := func(c Config) []string {
		t.Helper()
		pages, err := c.Pages(tokens)
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, p := range pages {
			keys = append(keys, p.Key)
		}
		return keys
	}
	own, shared := keys(Config{Model: "own", PageTokens: page}), keys(Config{Model: "shared", PageTokens: page})
	for name, c := range map[string]struct {
		prompts [][]int32
		common  int // pages
	}{
		"none":                  {nil, 0},
		"less than a page":      {[][]int32{tokens[:3]}, 0},
		"a page":                {[][]int32{tokens[:4]}, 1},
		"not whole pages":       {[][]int32{tokens[:11]}, 2},
		"the longest of two":    {[][]int32{tokens[:4], tokens[:12]}, 3},
		"more than the prompt":  {[][]int32{append(slices.Clone(tokens), 7)}, 5},
		"another":               {[][]int32{{9, 9, 9, 9}}, 0},
		"parts after two pages": {[][]int32{append(slices.Clone(tokens[:9]), 1, 1, 1, 1)}, 2},
	} {
		got := keys(Config{Model: "own", PageTokens: page, Common: &Common{Model: "shared", Prompts: c.prompts}})
		want := append(slices.Clone(shared[:c.common]), own[c.common:]...)
		if !slices.Equal(got, want) {
			t.Errorf("%s: keys %q, want %q", name, got, want)
		}
	}
	if _, err := (Config{Model: "own", PageTokens: page, Common: &Common{}}).Pages(tokens); err == nil {
		t.Error("a common model without a name")
	}
}
