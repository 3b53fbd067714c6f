package main

import (
	"strings"
	"testing"
)

// Mistakes are told before anything starts, with what would be right.
func TestUpMistakes(t *testing.T) {
	for says, args := range map[string][]string{
		`"model.gguf" is no flag`:              {"model.gguf"},
		"as in --segment 2GiB":                 {"--segment", "much"},
		"--segment is 64MiB or more":           {"--segment", "1KiB"},
		"--threads 4096: this machine has":     {"--threads", "4096"},
		"--decode -1: a number of workers":     {"--decode", "-1"},
		"--prefill -2: a number of workers":    {"--prefill", "-2"},
		"--model is a GGUF file":               {"--model", "/no/such"},
		"as in --llama-server /usr/local/bin/": {"--llama-server", "/no/such"},
		"leave --api-keys out":                 {"--try", "--api-keys", "x"},
		"--ctx-size after --; give --ctx":      {"--", "--ctx-size", "1"},
		"as in --decode 2":                     {"--decode", "two"},
	} {
		root := newRootCommand()
		root.SetArgs(append([]string{"up"}, args...))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", args, err, says)
		}
	}
}
