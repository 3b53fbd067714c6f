package file

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"ollamoon/store"
)

// diskBytes is the size of the disk that is filled.
const diskBytes = 2 << 20

// A disk fills up before the budget does. The disk is a tmpfs in a mount
// namespace of the child's own, for which a user namespace gives the right where
// the test does not run as root. Machines that allow neither still have
// TestFileSizeLimit.
func TestDiskFull(t *testing.T) {
	dir := newDir(t)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := newChild(t, "fill a small one", dir)
	c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, syscall.EPERM), errors.As(err, &exit) && exit.ExitCode() == cannotMount:
		t.Logf("this machine lets nobody mount a small disk (%v): the file size limit stands for it", err)
	case err != nil:
		t.Errorf("%v: %s", err, c.Stderr)
	}
}

const cannotMount = 3

func fillDisk() int {
	dir := os.Getenv(dirVariable)
	// Keep the mount from other namespaces; in a chroot the root is no mount point,
	// and there is nothing to keep it from.
	_ = syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", diskBytes)); err != nil {
		fail(err)
		return cannotMount
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH) //nolint:errcheck // it goes with the namespace
	if err := useFullDisk(dir); err != nil {
		return fail(err)
	}
	return 0
}

func useFullDisk(dir string) error {
	ctx, cancel := childContext()
	defer cancel()
	s, err := Open(Config{Dir: dir, BudgetBytes: 64 << 20})
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // it keeps nothing
	const size = 300000
	for i := range 30 { // far more than the disk holds: old ones make room
		err = errors.Join(err, expectPut(ctx, s, fmt.Sprint("object ", i), size, nil))
	}
	present, existErr := s.BatchExist(ctx, []string{"object 0", "object 27", "object 28", "object 29"})
	if existErr != nil || present[0] || !present[1] || !present[2] || !present[3] {
		err = errors.Join(err, fmt.Errorf("the newest objects are not those that are there: %v, %w", present, existErr))
	}
	kept := int(s.Stats().Puts - s.Stats().Evictions)
	err = errors.Join(err, nothingLeft(s, kept))

	// What the disk could not hold if it were empty takes no room from others.
	err = errors.Join(err, expectPut(ctx, s, "too large", diskBytes+1, store.ErrFull), nothingLeft(s, kept))

	// Someone else's file takes all that is left.
	if kept < 4 {
		err = errors.Join(err, fmt.Errorf("only %d objects fit", kept))
	}
	for i := range 30 {
		discardErr := s.Discard(ctx, fmt.Sprint("object ", i))
		err = errors.Join(err, discardErr)
	}
	hog := make([]byte, diskBytes)
	f, hogErr := os.Create(dir + "/.hog") //nolint:gosec // the child's own disk
	if hogErr != nil {
		return errors.Join(err, hogErr)
	}
	_, _ = f.Write(hog)
	_ = f.Close()
	err = errors.Join(err, expectPut(ctx, s, "no room", size, store.ErrFull), nothingLeft(s, 0))
	err = errors.Join(err, os.Remove(dir+"/.hog"), expectPut(ctx, s, "room again", size, nil), nothingLeft(s, 1))
	return err
}
