package ollama

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"ollamoon/internal/standin"
)

// A Process is one of Ollama's, or a llama-server.
type Process struct {
	PID     int
	Program string
	Args    []string
	UID     int
}

// processes are the ollama servers that run.
func (h Host) processes() []Process {
	return h.running(func(p Process) bool {
		return filepath.Base(p.Args[0]) == "ollama" && len(p.Args) > 1 && p.Args[1] == "serve"
	})
}

// servers are the processes that were started as a folder's llama-server.
func (h Host) servers(folder string) []Process {
	return h.running(func(p Process) bool {
		if filepath.Base(p.Args[0]) != standin.Name {
			return false
		}
		resolved, err := filepath.EvalSymlinks(filepath.Dir(p.Args[0]))
		return err == nil && resolved == folder
	})
}

// running returns the processes for which is is true. Where the system does not
// tell of its processes, there are none.
func (h Host) running(is func(Process) bool) []Process {
	var found []Process
	lines, _ := filepath.Glob(h.at("/proc/[0-9]*/cmdline")) // the pattern is sound
	for _, line := range lines {
		folder := filepath.Dir(line)
		pid, err := strconv.Atoi(filepath.Base(folder))
		data, readErr := os.ReadFile(line) //nolint:gosec // the kernel's
		if err != nil || readErr != nil || len(data) == 0 {
			continue
		}
		p := Process{PID: pid, Args: strings.Split(string(bytes.TrimRight(data, "\x00")), "\x00"), UID: -1}
		if !is(p) {
			continue
		}
		p.Program = p.Args[0]
		if exe, err := os.Readlink(filepath.Join(folder, "exe")); err == nil {
			p.Program = strings.TrimSuffix(exe, " (deleted)")
		}
		if info, err := os.Stat(folder); err == nil {
			if s, ok := info.Sys().(*syscall.Stat_t); ok {
				p.UID = int(s.Uid)
			}
		}
		found = append(found, p)
	}
	return found
}

// environment returns a variable of a process, if this user may know it.
func (h Host) environment(p Process, name string) string {
	data, err := os.ReadFile(h.at(filepath.Join("/proc", strconv.Itoa(p.PID), "environ")))
	if err != nil {
		return ""
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			return string(value)
		}
	}
	return ""
}
