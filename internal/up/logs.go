package up

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// logs are what the children print: a file for each and, if shown is not nil,
// lines that begin with its name.
type logs struct {
	folder string
	shown  io.Writer // takes whole lines, from several goroutines
	mu     struct {
		sync.Mutex
		files []*os.File
	}
}

// of returns where a child's output goes, also when it is started again.
func (l *logs) of(name string) (io.Writer, error) {
	f, err := os.OpenFile(filepath.Join(l.folder, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // names from here, in the folder asked for
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	l.mu.Lock()
	l.mu.files = append(l.mu.files, f)
	l.mu.Unlock()
	if l.shown == nil {
		return f, nil
	}
	return io.MultiWriter(f, &prefixed{to: l.shown, prefix: []byte(name + " | ")}), nil
}

func (l *logs) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.mu.files {
		_ = f.Close() // what was logged is for people
	}
	l.mu.files = nil
}

// prefixed passes lines on with a prefix. It is for one goroutine.
type prefixed struct {
	to     io.Writer
	prefix []byte
	begun  []byte // a line without its end
}

// maxLine is how much of a line is kept until its end.
const maxLine = 64 << 10

// Write never fails: what cannot be shown is in the file.
func (p *prefixed) Write(b []byte) (int, error) {
	n := len(b)
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		p.show(append(p.begun, b[:i+1]...))
		p.begun, b = p.begun[:0], b[i+1:]
	}
	if p.begun = append(p.begun, b...); len(p.begun) > maxLine {
		p.show(append(p.begun, '\n'))
		p.begun = p.begun[:0]
	}
	return n, nil
}

func (p *prefixed) show(line []byte) {
	_, _ = p.to.Write(append(append([]byte{}, p.prefix...), line...))
}

// A console is a writer for several goroutines.
type console struct {
	mu sync.Mutex
	to io.Writer
}

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.to.Write(b)
}
