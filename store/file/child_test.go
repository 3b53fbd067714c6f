package file

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// The test binary is also the other processes that the tests need.
const (
	roleVariable = "OLLAMOON_FILE_TEST_ROLE"
	dirVariable  = "OLLAMOON_FILE_TEST_DIR"
	childLimit   = 2 * time.Minute
)

var roles = map[string]func() int{
	"read a folder":    readAsNobody,
	"use a folder":     useUntilKilled,
	"meet a limit":     putWithFileLimit,
	"fill a small one": fillDisk,
}

// A child is another process.
type child struct {
	*exec.Cmd
	Stderr *bytes.Buffer
}

// newChild returns a process that plays a role with a folder. Whoever starts it
// waits for it.
func newChild(t *testing.T, role, dir string) *child {
	t.Helper()
	c := &child{Cmd: exec.CommandContext(t.Context(), os.Args[0]), Stderr: new(bytes.Buffer)} //nolint:gosec // this binary
	c.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	c.Cmd.Stderr = c.Stderr
	dieWithParent(c.Cmd)
	return c
}

func startChild(t *testing.T, role, dir string) *child {
	t.Helper()
	c := newChild(t, role, dir)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// childContext bounds a child's life.
func childContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), childLimit)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
