package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// An error about a flag has a value that is right.
func TestFlagErrors(t *testing.T) {
	for _, c := range []struct {
		args  string
		words []string
	}{
		{"keys", []string{"--model is needed; as in --model llama3.2:3b", "--page-tokens is needed; as in --page-tokens 256"}},
		{"keys --model m --page-tokens many", []string{"as in --page-tokens 256"}},
		{"keys --model", []string{"needs an argument", "as in --model llama3.2:3b"}},
		{"keys --modell m", []string{"--modell", `"ollamoon keys --help"`}},
		{"bench store", []string{"--out is needed; as in --out results.json"}},
		{"bench store --out x --seal wax", []string{"checksum, mac, none", "as in --seal checksum"}},
		{"bench demo --out x --metadata dns", []string{"http, p2p", "as in --metadata http"}},
		{"attach --role x", []string{"mixed, prefill or decode", "as in --role mixed"}},
		{"attach --deadline soon", []string{"as in --deadline 5s"}},
		{"attach --store", []string{"as in --store file:/var/cache/pages"}},
		{"lookup --as x", []string{"text, tokens, chat", "as in --as text"}},
		{"lookup --as tokens --page-tokens 0", []string{"as in --page-tokens 256"}},
		{"lookup", []string{"--worker http://127.0.0.1:8080"}},
		{"doctor --log-level loud", []string{"as in --log-level WARN"}},
	} {
		out, err := run(t, "", strings.Fields(c.args)...)
		if err == nil {
			t.Errorf("%s: no error: %s", c.args, out)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: no %q in: %v", c.args, w, err)
			}
		}
	}
}

// Shells complete the words that a flag can have.
func TestCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"attach --role":         "mixed prefill decode",
		"attach --log-format":   "text json",
		"doctor --log-level":    "DEBUG INFO WARN ERROR",
		"bench store --seal":    "checksum mac none",
		"bench demo --metadata": "http p2p",
		"lookup --as":           "text tokens chat",
	} {
		out, err := run(t, "", append([]string{cobra.ShellCompNoDescRequestCmd}, append(strings.Fields(args), "")...)...)
		words, _, _ := strings.Cut(out, "\n:")
		if err != nil || strings.Join(strings.Fields(words), " ") != want {
			t.Errorf("%s: %q, %v", args, out, err)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, err := run(t, "", "completion", shell); err != nil || !strings.Contains(out, "ollamoon") {
			t.Errorf("%s: %v", shell, err)
		}
	}
}

// Settings that are given as flags reach the file, and their defaults do not.
func TestIsSetting(t *testing.T) {
	for flag, want := range map[string]bool{"store": true, "role": true, "lib": false, "user": false, "config": false} {
		if isSetting(flag) != want {
			t.Errorf("%s", flag)
		}
	}
}
