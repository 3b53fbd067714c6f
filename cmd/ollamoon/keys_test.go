package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// run executes ollamoon with arguments and standard input, and returns what it
// printed.
func run(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	root := newRootCommand()
	var out bytes.Buffer
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestKeys(t *testing.T) {
	const one = "mc/ollama/m/dc90234fa9460d8b0df622ed269bf66b\n"
	for stdin, want := range map[string]string{
		"1 2 3 4":                one,
		"1,2,3,4\n":              one,
		"\n 1,, 2\r\n3\t4 , 5 6": one,
		"1 2 3":                  "ollamoon: no keys: 3 tokens fill no page of 4\n",
		"":                       "ollamoon: no keys: 0 tokens fill no page of 4\n",
	} {
		got, err := run(t, stdin, "keys", "--model", "m", "--page-tokens", "4")
		if err != nil || got != want {
			t.Errorf("%q gives %q, %v; want %q", stdin, got, err, want)
		}
	}
	got, err := run(t, "1 2 3 4", "keys", "--model", "m", "--page-tokens", "4", "--key-prefix", "team-a/kv")
	if err != nil || !strings.HasPrefix(got, "team-a/kv/m/") {
		t.Errorf("with a key prefix: %q, %v", got, err)
	}
}

func TestKeysRefusesWhatIsNoTokenID(t *testing.T) {
	for stdin, want := range map[string]string{
		"1 2\n3 x4 5":                        `line 2, column 3: token 4: "x4"`,
		"2147483648":                         `line 1, column 1: token 1: "2147483648"`,
		"1 2.5":                              `line 1, column 3: token 2: "2.5"`,
		"1;2":                                `line 1, column 1: token 1: "1;2"`,
		"7 " + strings.Repeat("0", 99) + "1": "line 1, column 3: token 2",
	} {
		_, err := run(t, stdin, "keys", "--model", "m", "--page-tokens", "1")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", stdin, err, want)
		}
	}
	for _, args := range [][]string{
		{"keys", "--page-tokens", "4"},
		{"keys", "--model", "m"},
		{"keys", "--model", "m", "--page-tokens", "0"},
		{"keys", "--model", "", "--page-tokens", "4"},
	} {
		if out, err := run(t, "1 2 3 4", args...); err == nil {
			t.Errorf("%v printed %q", args, out)
		}
	}
}

func TestReadTokensTakesExtremes(t *testing.T) {
	got, err := readTokens(strings.NewReader("-2147483648 -1 +7 2147483647"))
	if want := []int32{-2147483648, -1, 7, 2147483647}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
