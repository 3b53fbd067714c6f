package ollama

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

const cannotMount = 3

// A full disk and a read-only one are real ones here: small file systems in a mount
// namespace of a child's own. Machines that allow none still have
// TestFailingAtEveryStep.
func TestFullAndReadOnlyDisk(t *testing.T) {
	i := newInstall(t)
	cmd := i.child("full disk", 0)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, syscall.EPERM), errors.As(err, &exit) && exit.ExitCode() == cannotMount:
		t.Logf("this machine lets nobody mount a small disk (%v)", err)
	case err != nil:
		t.Errorf("%v: %s", err, out)
	}
}

func useSmallDisk(ctx context.Context) int {
	root := os.Getenv(dirVariable)
	lib := filepath.Join(root, "usr/local/lib/ollama")
	_ = syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") // in a chroot the root is no mount point
	if err := syscall.Mount("tmpfs", lib, "tmpfs", 0, "size=1m,mode=0755"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return cannotMount
	}
	defer syscall.Unmount(lib, syscall.MNT_DETACH) //nolint:errcheck // it goes with the namespace
	server := filepath.Join(lib, "llama-server")
	if err := os.WriteFile(server, []byte(serverText("1")), 0o755); err != nil { //nolint:gosec // a program
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	o := Options{
		Host:    Host{Root: root, Path: filepath.Join(root, "usr/local/bin"), OS: "linux"},
		Program: os.Getenv("OLLAMOON_TEST_PROGRAM"),
	}
	check := func(want syscall.Errno) error {
		_, err := Attach(ctx, o)
		if !errors.Is(err, want) {
			return fmt.Errorf("attaching: %w, not %w", err, want)
		}
		out, err := exec.CommandContext(ctx, server).Output() //nolint:gosec // of the test
		if err != nil || string(out) != "version: 1\n" {
			return fmt.Errorf("llama-server says %s: %w", out, err)
		}
		entries, err := os.ReadDir(lib)
		if err != nil || len(entries) != 1 {
			return fmt.Errorf("left are %v, %w", entries, err)
		}
		return nil
	}
	err := check(syscall.ENOSPC)
	remount := syscall.Mount("tmpfs", lib, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	err = errors.Join(err, remount, check(syscall.EROFS))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
