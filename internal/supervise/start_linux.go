package supervise

import (
	"os"
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child when the thread that starts it
// ends. The child gets a process group of its own, so that an interrupt from the
// terminal reaches only the parent, which stops its children in order.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// killWithParent has nothing to do: the kernel does it.
func killWithParent(int) (stop func()) { return func() {} }
