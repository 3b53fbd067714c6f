package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ollamoon/internal/results"
)

const smallTrace = `{"timestamp": 0, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}
{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 1500, "output_length": 9, "hash_ids": [0, 1, 9]}
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A trace is played, its results are valid and have a page.
func TestSimulate(t *testing.T) {
	file := write(t, "trace.jsonl", smallTrace)
	out := filepath.Join(t.TempDir(), "results.json")
	printed, err := run(t, "", "simulate", "--trace", file, "--workers", "1,2", "--json", "--out", out)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)                               //nolint:gosec // of this test
	if err != nil || !strings.Contains(printed, string(data)) { // progress is printed too
		t.Errorf("the file and what is printed differ: %v", err)
	}
	f, err := results.ParseSimulation(data)
	if err != nil {
		t.Fatal(err)
	}
	// Four policies, two numbers of workers, three loads, and four smaller stores for
	// one of the numbers.
	if f.Trace.IdealHits != 4 || f.Trace.Name != "trace.jsonl" || f.Trace.BlockTokens != 512 || len(f.Runs) != 2*3*4+3*4 {
		t.Errorf("%+v, %d runs", f.Trace, len(f.Runs))
	}
	table, err := run(t, "", "simulate", "--trace", file, "--workers", "1", "--policy", "shared", "--page-tokens", "256")
	if err != nil || !strings.Contains(table, "shared") || strings.Contains(table, "round-robin") || !strings.Contains(table, "pages of 256 tokens") {
		t.Errorf("printed %q, %v", table, err)
	}
	page, err := run(t, "", "report", out)
	if err != nil {
		t.Fatal(err)
	}
	if html, err := os.ReadFile(strings.TrimSpace(page)); err != nil || !strings.Contains(string(html), "simulated clusters") {
		t.Errorf("the page: %v", err)
	}
}

func TestSimulateRejects(t *testing.T) {
	file := write(t, "trace.jsonl", smallTrace)
	bad := write(t, "bad.jsonl", `{"timestamp": 0}`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--trace"},
		{[]string{"--trace", file + ".gone"}, "no such file"},
		{[]string{"--trace", bad}, "line 1"},
		{[]string{"--trace", file, "--block-tokens", "256"}, "--block-tokens"},
		{[]string{"--trace", file, "--page-tokens", "100"}, "--page-tokens"},
		{[]string{"--trace", file, "--policy", "random"}, "round-robin"},
		{[]string{"--trace", file, "--costs", "9b"}, "8b-cpu"},
		{[]string{"--trace", file, "--workers", "0"}, "0 workers"},
		{[]string{"--trace", file, "--store-blocks", "2"}, "parts of 1"},
		{[]string{"--trace", file, "--saves", "never"}, "steps"},
		{[]string{"--trace", file, "--worker-cache", "much"}, "--worker-cache"},
		{[]string{"--trace", file, "--out", t.TempDir()}, "a folder"},
	} {
		if _, err := run(t, "", append([]string{"simulate"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %q", c.args, err, c.want)
		}
	}
}

// Request logs become a trace that can be played.
func TestSimulateConvert(t *testing.T) {
	one := write(t, "1.log", `{"time_ms": 9000, "prompt_tokens": 600, "output_tokens": 4, "page_tokens": 256, "hash_ids": ["aa", "bb"]}`+"\n")
	other := write(t, "2.log", `{"time_ms": 8000, "prompt_tokens": 700, "output_tokens": 4, "page_tokens": 256, "hash_ids": ["aa", "cc"]}`+"\n")
	printed, err := run(t, "", "simulate", "convert", one, other)
	if err != nil {
		t.Fatal(err)
	}
	printed, said, _ := strings.Cut(printed, "2 requests")
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	var last map[string]any
	if said != "; blocks of 256 tokens\n" || len(lines) != 2 || json.Unmarshal([]byte(lines[1]), &last) != nil || last["timestamp"] != 1000.0 {
		t.Errorf("printed %q", printed)
	}
	if _, err := run(t, "", "simulate", "--trace", write(t, "trace.jsonl", printed), "--workers", "1"); err != nil {
		t.Error(err)
	}
	if _, err := run(t, "", "simulate", "convert", one+".gone"); err == nil {
		t.Error("a log that is not there is converted")
	}
}

// What cannot be replayed is told before anything is asked.
func TestSimulateReplayRejects(t *testing.T) {
	file := write(t, "trace.jsonl", smallTrace)
	const nobody = "http://127.0.0.1:1" // a port without a listener
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--url"},
		{[]string{"--url", nobody, "--requests", "0"}, "--requests 0"},
		{[]string{"--url", nobody, "--scale", "-1"}, "--scale"},
		{[]string{"--url", nobody, "--costs", "9b"}, "8b-cpu"},
		{[]string{"--url", nobody, "--worker-cache", "much"}, "--worker-cache"},
		{[]string{"--url", nobody, "--trace", file + ".gone"}, "no such file"},
		{[]string{"--url", nobody, "--out", t.TempDir()}, "a folder"},
		{[]string{"--url", nobody, "--trace", file, "--scale", "256"}, "asking " + nobody},
	} {
		if _, err := run(t, "", append([]string{"simulate", "replay"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v; want %q", c.args, err, c.want)
		}
	}
	if _, err := run(t, "", "report", write(t, "replay.json", `{"kind":"replay"}`)); err == nil || !strings.Contains(err.Error(), "simulate replay") {
		t.Errorf("a replay's page: %v", err)
	}
}
