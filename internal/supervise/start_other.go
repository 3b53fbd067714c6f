//go:build !linux

package supervise

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
)

func dieWithParent(*exec.Cmd) {}

func terminate(p *os.Process) error { return p.Signal(os.Interrupt) }

func keepBindsOnLoopback() (stop func(), err error) {
	return nil, errors.ErrUnsupported
}

// Listeners is not possible on this system.
func (p *Process) Listeners() ([]netip.AddrPort, error) {
	return nil, errors.ErrUnsupported
}
