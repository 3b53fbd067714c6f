package netlab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"ollamoon/internal/supervise"
)

const (
	// insideVariable says that this process has a network namespace of its own.
	insideVariable = "OLLAMOON_NETLAB_INSIDE"
	// namespaceVariable is the file of the namespace in which this process is to
	// become a program.
	namespaceVariable = "OLLAMOON_NETLAB_NAMESPACE"
)

// rights is what to do without the rights that this needs.
const rights = `netlab: no network namespace can be made: %w
These tests make machines of network namespaces. Run them with the right to do so, one of
  sudo -E env "PATH=$PATH" go test ./internal/netlab             as root
  sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0   once, on Ubuntu; then as any user
  sudo sysctl -w kernel.unprivileged_userns_clone=1               once, on older Debians; then as any user
  docker run --cap-add SYS_ADMIN --cap-add NET_ADMIN --security-opt apparmor=unconfined ...   in a container`

// Main makes of this process what it is to be: the program on a machine, the tests
// in a namespace of their own, for which it calls run, or the parent of these. It
// does not return.
func Main(run func()) {
	switch {
	case os.Getenv(namespaceVariable) != "":
		fail(become(os.Getenv(namespaceVariable)))
	case os.Getenv(insideVariable) != "":
		run()
		os.Exit(0)
	default:
		code, err := inside()
		if err != nil {
			fail(err)
		}
		os.Exit(code)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// inside runs this program again in a network namespace of its own, and returns
// its exit code.
func inside() (int, error) {
	runtime.LockOSThread() // with which the child would end
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	var refused error
	for _, attributes := range []*syscall.SysProcAttr{asRoot(), asUser()} {
		attributes.Pdeathsig = syscall.SIGKILL
		attributes.Setpgid = true                               // signals to the group reach it once, by way of this process
		child := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:gosec,noctx // this program; ends by itself
		child.Args[0] = os.Args[0]
		child.Env = append(os.Environ(), insideVariable+"=yes")
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		child.SysProcAttr = attributes
		if err := child.Start(); err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		done := make(chan struct{})
		go func() {
			for {
				select {
				case s := <-signals:
					_ = child.Process.Signal(s) // it may be over
				case <-done:
					return
				}
			}
		}()
		err := child.Wait()
		close(done)
		if code := child.ProcessState.ExitCode(); code >= 0 {
			return code, nil
		}
		return 0, fmt.Errorf("netlab: the tests' process: %w", err)
	}
	return 0, fmt.Errorf(rights, refused)
}

func asRoot() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
}

func asUser() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// become enters a namespace and becomes the program that the arguments name.
func become(namespace string) error {
	runtime.LockOSThread() // exec goes on in the namespace of the thread that calls it
	handle, err := netns.GetFromPath(namespace)
	if err != nil {
		return fmt.Errorf("netlab: finding a machine: %w", err)
	}
	if err := netns.Set(handle); err != nil {
		return fmt.Errorf("netlab: entering a machine: %w", err)
	}
	if err := errors.Join(handle.Close(), os.Unsetenv(namespaceVariable)); err != nil {
		return fmt.Errorf("netlab: entering a machine: %w", err)
	}
	return fmt.Errorf("netlab: running %s: %w", os.Args[1], syscall.Exec(os.Args[1], os.Args[1:], os.Environ())) //nolint:gosec // what the test asks for
}

// Command turns a command into one that runs on the machine.
func (m *Machine) Command(c supervise.Command) supervise.Command {
	c.Args = append([]string{c.Path}, c.Args...)
	c.Path = "/proc/self/exe"
	if self, err := os.Executable(); err == nil {
		c.Path = self
	}
	c.Env = append(c.Env[:len(c.Env):len(c.Env)], fmt.Sprintf("%s=/proc/%d/fd/%d", namespaceVariable, os.Getpid(), int(m.namespace)))
	return c
}
