package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// watch starts a shell that kills a process when its own standard input ends:
// the other end of it is this process's, and ends with it in whatever way. It is
// for systems whose kernel does not do that.
func watch(pid int) (stop func(), err error) {
	ends, held, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting a watcher: %w", err)
	}
	shell := &exec.Cmd{
		Path:        "/bin/sh",
		Args:        []string{"sh", "-c", `read -r _; kill -KILL "$1" 2>/dev/null`, "watch", strconv.Itoa(pid)},
		Stdin:       ends,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, // out of reach of the terminal's signals
	}
	err = shell.Start()
	_ = ends.Close()
	if err != nil {
		_ = held.Close()
		return nil, fmt.Errorf("starting a watcher: %w", err)
	}
	return func() {
		_ = shell.Process.Kill()
		_ = shell.Wait() // it was killed
		_ = held.Close()
	}, nil
}
