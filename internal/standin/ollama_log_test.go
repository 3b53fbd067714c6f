package standin

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// What Ollama looks for in a llama-server's output, piece by piece as it comes:
// what memory it takes, for the scheduler, and what went wrong, for its user.
var (
	bufferLine    = regexp.MustCompile(`(?m)(?:^|\n)[^\n:]*?([A-Za-z_][A-Za-z0-9_]*):\s+(\S+)\s+(model|KV|compute|output|RS)\s+buffer size\s*=\s*([\d.]+)\s*MiB`)
	deviceLine    = regexp.MustCompile(`using device (\S+)\s+\(.*\)\s+-\s+\d+\s+MiB free`)
	offloadedLine = regexp.MustCompile(`offloaded\s+(\d+)/(\d+)\s+layers to GPU`)
	overflowLine  = regexp.MustCompile(`common_params_fit_impl:\s+-\s+.+:\s+\d+\s+layers\s+\(\s*(\d+)\s+overflowing\)`)
)

// failures are what Ollama takes for an error where it stands in a line, and
// shortages what it takes for one in any case of letters.
var (
	failures = []string{
		"mlx:", "MLX:", "panic:", "fatal error:", "error:", "Error:", "CUDA error", "ROCm error", "cudaMalloc failed", `"ERR"`,
		"error loading model", "GGML_ASSERT", "Deepseek2 does not support K-shift", "signal arrived during cgo execution", "llama_init_from_model:",
	}
	shortages = []string{
		"out of memory", "out of device memory", "cudamalloc failed", "hipmalloc failed", "failed to allocate", "allocation failed",
		"not enough memory", "insufficient memory", "vk_error_out_of_device_memory", "erroroutofmemory",
	}
)

// A runnerLog reads a llama-server's output as Ollama does.
type runnerLog struct {
	to *output
	mu struct {
		sync.Mutex
		buffers map[string]string // MiB, the last of each component, backend and kind
		others  []string
		failed  []string
	}
}

func (l *runnerLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.buffers == nil {
		l.mu.buffers = map[string]string{}
	}
	for _, m := range bufferLine.FindAllSubmatch(p, -1) {
		l.mu.buffers[fmt.Sprintf("%s %s %s", m[1], m[2], m[3])] = string(m[4])
	}
	for _, wanted := range []*regexp.Regexp{deviceLine, offloadedLine, overflowLine} {
		for _, m := range wanted.FindAllSubmatch(p, -1) {
			l.mu.others = append(l.mu.others, string(slices.Concat(m[1:]...)))
		}
	}
	for line := range strings.Lines(string(p)) {
		if alarming(line) {
			l.mu.failed = append(l.mu.failed, line)
		}
	}
	return l.to.Write(p)
}

func alarming(line string) bool {
	return slices.ContainsFunc(failures, func(s string) bool { return strings.Contains(line, s) }) ||
		slices.ContainsFunc(shortages, func(s string) bool { return strings.Contains(strings.ToLower(line), s) })
}

var taskPattern = regexp.MustCompile(`task id = \d+`) // whose number depends on the tasks before

// understood is what Ollama has made of the output.
func (l *runnerLog) understood() (memory, failed string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.mu.buffers, l.mu.others), taskPattern.ReplaceAllString(strings.Join(l.mu.failed, ""), "task")
}

// sameLog checks that Ollama understands two llama-servers' output in the same
// way, and that lines of ours mean nothing to it.
func sameLog(t *testing.T, want, got *runner) {
	t.Helper()
	wantMemory, wantFailed := want.log.understood()
	gotMemory, gotFailed := got.log.understood()
	if wantMemory != gotMemory || !strings.Contains(gotMemory, " KV:") {
		t.Errorf("memory as Ollama reads it\n%s\nof the engine alone\n%s", gotMemory, wantMemory)
	}
	if wantFailed != gotFailed {
		t.Errorf("failures as Ollama reads them\n%s\nof the engine alone\n%s", gotFailed, wantFailed)
	}
	ours := 0
	for line := range strings.Lines(got.out.String()) {
		at := strings.Index(line, logPrefix)
		if at < 0 {
			continue
		}
		ours++
		if at > 0 || !strings.HasSuffix(line, "\n") {
			t.Errorf("a line is not whole: %q", line)
		}
		if alarming(line) || bufferLine.MatchString(line) || deviceLine.MatchString(line) || offloadedLine.MatchString(line) || overflowLine.MatchString(line) {
			t.Errorf("Ollama takes a line of ours for one of the engine's: %s", line)
		}
	}
	if ours == 0 {
		t.Error("no line of ours")
	}
}
