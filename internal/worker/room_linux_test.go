package worker

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// smallVariable names the folder on which the test binary, in name spaces of its
// own, has a small file system in memory.
const smallVariable = "WORKER_TEST_SMALL"

// A file system in memory that has no room for a slot: prompts are served, pages go
// by way of the disk, and where the engine runs out of room in the middle of a file
// the prompt is not shared and nothing is left.
func TestSmallFileSystem(t *testing.T) {
	if os.Getenv(smallVariable) != "" {
		inSmallFileSystem(t, os.Getenv(smallVariable))
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self, "-test.run=^TestSmallFileSystem$", "-test.v", "-test.timeout=5m") //nolint:gosec // this program
	command.Env = append(os.Environ(), smallVariable+"="+t.TempDir())
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := command.CombinedOutput()
	var refused *fs.PathError
	if errors.As(err, &refused) && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ENOSPC)) {
		t.Logf("NOT RUN on a real small file system, since this system permits no name spaces: %v; TestSharingAsFarAsThereIsRoom has its cases", err)
		return
	}
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

func inSmallFileSystem(t *testing.T, folder string) {
	const room = "size=8m" // of the 12 that two pages take
	if err := syscall.Mount("none", folder, "tmpfs", 0, room); err != nil {
		t.Fatal(err)
	}
	disk := t.TempDir()
	t.Setenv("TMPDIR", folder)
	t.Run("on it", func(t *testing.T) {
		r := start(t, newStore(t), nil, "-c", "1024", "-np", "1", "--cache-ram", "0")
		if filepath.Dir(filepath.Dir(r.folder)) != folder {
			t.Fatalf("slot files are in %s", r.folder)
		}
		prompt := known{tokens: r.tokens("f", 600)}
		prompt.answer = r.ask(greedy(prompt.tokens)).Content
		r.check("no room", prompt, 0)
		if s := r.worker.Status(); s.NoRoom != 2 || s.Pages.PagesPublished != 0 {
			t.Errorf("status %+v", s)
		}
		if files := r.slotFiles(); len(files) > 0 {
			t.Errorf("left: %v", files)
		}
		// Another process takes the room that there seemed to be.
		blind := r.over(t, newStore(t), func(s *Sharing) { s.Room = func(string) int64 { return math.MaxInt64 } })
		for range 2 {
			blind.check("the engine runs out of room", prompt, 0)
		}
		if s := blind.worker.Status(); s.Pages.PagesPublished != 0 {
			t.Errorf("status %+v", s)
		}
		if files := r.slotFiles(); len(files) > 0 {
			t.Errorf("left: %v", files)
		}
		spilling := r.over(t, newStore(t), func(s *Sharing) { s.Overflow = disk })
		spilling.check("published through the disk", prompt, 0)
		spilling.check("loaded through the disk", prompt, 512)
		if s := spilling.worker.Status(); s.NoRoom != 0 || s.Pages.PagesPublished != 2 {
			t.Errorf("status %+v", s)
		}
		if entries, err := os.ReadDir(disk); err != nil || len(entries) > 0 {
			t.Errorf("left on disk: %v, %v", entries, err)
		}
	})
}
