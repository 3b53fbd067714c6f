package standin

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// An Exit is how a process ends: with a code, or by a signal.
type Exit struct {
	Code   int
	Signal syscall.Signal // 0: none
}

// exitOf is how a process has ended.
func exitOf(state *os.ProcessState) Exit {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Code: signalled + int(status.Signal()), Signal: status.Signal()}
	}
	return Exit{Code: state.ExitCode()}
}

// signalled is what shells add to a signal for an exit code.
const signalled = 128

// Now ends this process in the same way. It does not return.
//
// Go handles some of the signals that end an engine itself, and prints what its
// goroutines do. So the process becomes a shell, which has no such habits, for
// its last moment. Its memory is not dumped: the engine's may have been.
func (e Exit) Now() {
	if e.Signal != 0 {
		script := "ulimit -c 0; kill -s " + strconv.Itoa(int(e.Signal)) + " $$"
		err := syscall.Exec("/bin/sh", []string{"sh", "-c", script}, nil) //nolint:gosec // a number
		fmt.Fprintln(os.Stderr, "ollamoon: ending by signal", int(e.Signal), "fails:", err)
	}
	os.Exit(e.Code)
}

// become turns this process into the real llama-server. It returns when that
// fails. One that has just gone was put back in the stand-in's place.
func become(binary, startedAs string, args, environ []string) Exit {
	err := syscall.Exec(binary, append([]string{binary}, args...), environ) //nolint:gosec // the user's program
	if errors.Is(err, syscall.ENOENT) {
		if again, failed := FindBinary("", startedAs, os.Getenv("PATH")); failed == nil {
			binary = again
			err = syscall.Exec(binary, append([]string{binary}, args...), environ) //nolint:gosec // the user's program
		}
	}
	fmt.Fprintf(os.Stderr, "ollamoon: running %s: %v\n", binary, err)
	return Exit{Code: 1}
}
