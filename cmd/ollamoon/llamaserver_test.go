package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ollamoon/internal/engine"
)

// As a command and under the name it stands in for llama-server, and only then.
func TestLlamaServer(t *testing.T) {
	programs, err := engine.Find()
	if err != nil {
		t.Fatal(err)
	}
	program := build(t)
	folder := filepath.Dir(program)
	link := filepath.Join(folder, "llama-server")
	for name, target := range map[string]string{"llama-server": program, "llama-server.real": programs.Binary} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...) //nolint:gosec // built above
		cmd.Env = []string{"HOME=" + folder, "PATH=/bin"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	want := run(programs.Binary, "--version")
	for _, args := range [][]string{{program, "llama-server", "--version"}, {link, "--version"}} {
		if got := run(args...); got != want || !strings.Contains(got, "version") {
			t.Errorf("%v: %s", args, got)
		}
	}
	if got := run(link, "-m", "x", "--ollamoon-help"); !strings.Contains(got, "--ollamoon-store") {
		t.Errorf("help is %s", got)
	}
	if got := run(program, "--help"); !strings.Contains(got, "llama-server") || strings.Contains(got, "--ctx-size") {
		t.Errorf("the program's own help is %s", got)
	}
}
