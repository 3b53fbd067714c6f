package standin

import (
	"bytes"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"

	"ollamoon/internal/settings"
)

// logPrefix starts each of our lines in the form of text.
const logPrefix = "ollamoon: "

// A console puts two writers' output onto one: the engine's, as it comes, and
// our lines, which wait until the engine's line is over.
type console struct {
	to io.Writer
	mu struct {
		sync.Mutex
		within bool   // the engine has begun a line and not ended it
		lines  []byte // ours that wait
	}
}

// maxWaitingBytes bounds our lines that wait; more of them are lost.
const maxWaitingBytes = 64 << 10

// lineWriter takes our lines, one a call.
type lineWriter struct{ *console }

func (w lineWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	quiet := harmlessLine(line)
	if !w.mu.within {
		if _, err := w.to.Write(quiet); err != nil {
			return 0, err
		}
		return len(line), nil
	}
	if len(w.mu.lines)+len(quiet) <= maxWaitingBytes {
		w.mu.lines = append(w.mu.lines, quiet...)
	}
	return len(line), nil
}

// alarms are what Ollama takes for a failure of the engine, wherever it stands in
// a line. It tells its user what follows, and where memory is short it may load the
// model anew.
var (
	alarms = regexp.MustCompile(`(?i)(?:(?:CUDA|ROCm) )?error:|(?:CUDA|ROCm) error|mlx:|panic:|"ERR"|(?:cudaMalloc|hipMalloc|allocation) failed|` +
		`error loading model|GGML_ASSERT|llama_init_from_model:|does not support K-shift|signal arrived during cgo execution|` +
		`out of (?:device )?memory|(?:not enough|insufficient) memory|failed to allocate|vk_error_out_of_device_memory|erroroutofmemory`)
	harmlessSigns = strings.NewReplacer(" ", "-", "_", "-", ":", ";")
)

// harmlessLine returns a line of ours without alarms: what fails here is no
// failure of the engine.
func harmlessLine(line []byte) []byte {
	return alarms.ReplaceAllFunc(line, func(found []byte) []byte {
		alarm := string(found)
		if quiet := harmlessSigns.Replace(alarm); quiet != alarm {
			return []byte(quiet)
		}
		half := len(alarm) / 2
		return []byte(alarm[:half] + "-" + alarm[half:])
	})
}

// engineWriter takes the engine's output and puts one address in the place of
// another.
type engineWriter struct {
	*console
	private, public []byte
	held            []byte // may be the start of the private address
}

func (w *engineWriter) Write(p []byte) (int, error) {
	data := append(w.held, p...) //nolint:gocritic // held is replaced below
	data = bytes.ReplaceAll(data, w.private, w.public)
	keep := startOf(w.private, data)
	w.held = bytes.Clone(data[len(data)-keep:])
	if err := w.pass(data[:len(data)-keep]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flush passes on what is held back, and our lines; for when nothing more comes.
func (w *engineWriter) flush() {
	_ = w.pass(w.held) // standard error may be closed
	w.held = nil
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.within && len(w.mu.lines) > 0 {
		w.mu.lines = append([]byte{'\n'}, w.mu.lines...) // the engine ends this line no more
	}
	w.mu.within = false
	_, _ = w.to.Write(w.mu.lines) // as above
	w.mu.lines = nil
}

func (c *console) pass(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if end := bytes.LastIndexByte(data, '\n') + 1; len(c.mu.lines) > 0 && end > 0 {
		data = bytes.Join([][]byte{data[:end], c.mu.lines, data[end:]}, nil)
		c.mu.lines = nil
	}
	c.mu.within = data[len(data)-1] != '\n'
	_, err := c.to.Write(data)
	return err
}

// startOf is how many bytes at the end of data are the start of pattern.
func startOf(pattern, data []byte) int {
	for n := min(len(pattern)-1, len(data)); n > 0; n-- {
		if bytes.HasPrefix(pattern, data[len(data)-n:]) {
			return n
		}
	}
	return 0
}

// logger returns the log of our own lines.
func (c *console) logger(s settings.Settings, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if s.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(lineWriter{c}, options)).With("from", "ollamoon")
	}
	return slog.New(slog.NewTextHandler(prefixed{lineWriter{c}}, options))
}

// prefixed puts the prefix before each line, of which it gets one a call.
type prefixed struct{ to io.Writer }

func (p prefixed) Write(line []byte) (int, error) {
	if _, err := p.to.Write(append([]byte(logPrefix), line...)); err != nil {
		return 0, err
	}
	return len(line), nil
}
