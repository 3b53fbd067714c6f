//go:build !linux

package supervise

import (
	"errors"
	"os"
	"os/exec"
)

func dieWithParent(*exec.Cmd) {}

func terminate(p *os.Process) error { return p.Signal(os.Interrupt) }

func keepBindsOnLoopback() (stop func(), err error) {
	return nil, errors.ErrUnsupported
}
