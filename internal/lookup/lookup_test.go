package lookup

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"ollamoon/prefix"
	"ollamoon/store"
	"ollamoon/store/memory"
)

var keys = prefix.Config{Model: "m", PageTokens: 4}

// numbers are the first tokens of a prompt, with one of them changed.
func numbers(n, at int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(i)
	}
	if at >= 0 {
		tokens[at] = -1
	}
	return tokens
}

// holding is a store with some pages of a prompt.
func holding(t *testing.T, tokens []int32, pages ...int) store.Store {
	t.Helper()
	s, err := memory.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	named, err := keys.Pages(tokens)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if err := s.BatchPut(t.Context(), []store.Item{{Key: named[p].Key, Bytes: []byte{1}}})[0]; err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestPrompts(t *testing.T) {
	s := holding(t, numbers(20, -1), 0, 1, 3)
	for name, c := range map[string]struct {
		tokens    []int32
		run, load int
		there     []bool
	}{
		"whole":           {numbers(22, -1), 2, 8, []bool{true, true, false, true, false}},
		"a page's length": {numbers(8, -1), 2, 4, []bool{true, true}},
		"other":           {numbers(22, 5), 1, 4, []bool{true, false, false, false, false}},
		"other at once":   {numbers(22, 0), 0, 0, make([]bool, 5)},
		"short":           {numbers(3, -1), 0, 0, nil},
		"empty":           {nil, 0, 0, nil},
	} {
		r, err := Prompts(t.Context(), s, keys, Prompt{name, c.tokens})
		if err != nil {
			t.Fatal(err)
		}
		f := r.Prompts[0]
		var there []bool
		for _, p := range f.Pages {
			there = append(there, p.There)
		}
		if f.Run != c.run || f.LoadTokens != c.load || !slices.Equal(there, c.there) || f.Tokens != len(c.tokens) || r.Difference != nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if _, err := Prompts(t.Context(), s, prefix.Config{PageTokens: 4}, Prompt{"x", numbers(4, -1)}); !errors.Is(err, prefix.ErrNoModel) {
		t.Errorf("without a namespace: %v", err)
	}
	_ = s.Close()
	if _, err := Prompts(t.Context(), s, keys, Prompt{"x", numbers(4, -1)}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a store that is closed: %v", err)
	}
}

func TestCompare(t *testing.T) {
	one, other := int32(5), int32(-1)
	for name, c := range map[string]struct {
		a, b []int32
		want Difference
	}{
		"same":        {numbers(9, -1), numbers(9, -1), Difference{Token: 9, Same: true, Page: 2}},
		"inside":      {numbers(9, -1), numbers(9, 5), Difference{Token: 5, Page: 1, IDs: [2]*int32{&one, &other}}},
		"first ends":  {numbers(5, -1), numbers(9, -1), Difference{Token: 5, Page: 1, IDs: [2]*int32{nil, &one}}},
		"second ends": {numbers(9, -1), numbers(5, -1), Difference{Token: 5, Page: 1, IDs: [2]*int32{&one, nil}}},
		"nothing":     {nil, nil, Difference{Same: true}},
	} {
		got := Compare(c.a, c.b, 4)
		for i := range got.IDs {
			if (got.IDs[i] == nil) != (c.want.IDs[i] == nil) || got.IDs[i] != nil && *got.IDs[i] != *c.want.IDs[i] {
				t.Errorf("%s: token %d is another", name, i)
			}
		}
		if got.Token != c.want.Token || got.Same != c.want.Same || got.Page != c.want.Page {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestText(t *testing.T) {
	s := holding(t, numbers(20, -1), 0, 1, 3)
	r, err := Prompts(t.Context(), s, keys, Prompt{"a", numbers(22, -1)}, Prompt{"b", numbers(9, 5)})
	if err != nil {
		t.Fatal(err)
	}
	r.Store = "memory:"
	before, text := "1 2", "five"
	r.Difference.Before, r.Difference.Texts[0] = &before, &text
	var b bytes.Buffer
	if err := r.Text(&b, false); err != nil {
		t.Fatal(err)
	}
	want := `store      memory:
namespace  m

a: 22 tokens, 5 full pages of 4 tokens
  the store has the first 2 pages: a worker can load 8 of 22 tokens
  pages 0 to 1 (tokens 0 to 7): there
  page 2 (tokens 8 to 11): missing
  page 3 (tokens 12 to 15): there, and of no use without those before
  page 4 (tokens 16 to 19): missing

b: 9 tokens, 2 full pages of 4 tokens
  the store has the first 1 page: a worker can load 4 of 9 tokens
  page 0 (tokens 0 to 3): there
  page 1 (tokens 4 to 7): missing

a and b differ first at token 5, in page 1: they share 1 page
  after "1 2"
  a has "five" (token 5)
  b has token -1
from there on nothing is shared; what changes (a time, a name) is best put after what stays
`
	if b.String() != want {
		t.Errorf("%s", &b)
	}
	b.Reset()
	if err := r.Text(&b, true); err != nil || strings.Count(b.String(), "    mc/ollama/m/") != 7 {
		t.Errorf("with keys: %s, %v", &b, err)
	}
	none, err := Prompts(t.Context(), nil, keys, Prompt{"a", nil}, Prompt{"b", nil})
	if err != nil {
		t.Fatal(err)
	}
	none.NotAsked = "because"
	b.Reset()
	if err := none.Text(&b, false); err != nil || !strings.HasPrefix(b.String(), "the store was not asked: because\n") || !strings.HasSuffix(b.String(), "a and b are the same 0 tokens\n") {
		t.Errorf("%s, %v", &b, err)
	}
}
