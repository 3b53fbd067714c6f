//go:build !linux

package supervise

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
)

func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killWithParent starts a watcher. A child without one outlives a killed parent,
// which is no reason not to run it.
func killWithParent(pid int) (stop func()) {
	stop, err := watch(pid)
	if err != nil {
		return func() {}
	}
	return stop
}

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

func keepBindsOnLoopback() (stop func(), err error) {
	return nil, errors.ErrUnsupported
}

// Listeners is not possible on this system.
func (p *Process) Listeners() ([]netip.AddrPort, error) {
	return nil, errors.ErrUnsupported
}
