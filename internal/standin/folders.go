package standin

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"

	"ollamoon/internal/room"
)

// errFolder: a folder is not the user's own, or open to others.
var errFolder = errors.New("standin: not a private folder")

// sharedMemory is where Linux has a file system in memory.
const sharedMemory = "/dev/shm"

// minRoomBytes is what shared memory must have free to be used for slot files.
const minRoomBytes = 1 << 30

// folders are those of one process.
type folders struct {
	run   string   // of its own, for the engine's socket
	lock  *os.File // the same, locked as long as it is in use
	slots string   // of all the user's processes, for slot files
	// overflow is one on disk for slot files that there is no room for in memory; empty
	// where slots is on disk already, or the user's choice.
	overflow string
}

// openFolders makes the folders and removes from them what processes that are
// no more have left. Slots, if not empty, is the folder for slot files; it is the
// user's affair who else can read there when they save slots into it themselves.
func openFolders(slots string, users bool) (folders, error) {
	own := "ollamoon-" + strconv.Itoa(os.Getuid())
	temporary := filepath.Join(os.TempDir(), own)
	if len(temporary) > len("/tmp/")+50 { // the path of a socket has to be short
		temporary = filepath.Join("/tmp", own)
	}
	if err := private(temporary); err != nil {
		return folders{}, err
	}
	f := folders{slots: slots}
	switch {
	case users:
	case slots != "":
		if err := private(slots); err != nil {
			return folders{}, err
		}
	default:
		f.slots = temporary
		if memory := filepath.Join(sharedMemory, own); room.Bytes(sharedMemory) >= minRoomBytes && private(memory) == nil {
			f.slots, f.overflow = memory, temporary
		}
	}
	sweep(temporary)
	sweep(f.slots)
	f.run = filepath.Join(temporary, fmt.Sprintf("ollamoon-%d-run", os.Getpid()))
	if err := os.RemoveAll(f.run); err != nil { // of an earlier process of this number
		return folders{}, fmt.Errorf("making a folder for the engine: %w", err)
	}
	err := os.Mkdir(f.run, 0o700)
	if err == nil {
		f.lock, err = locked(f.run)
	}
	if err != nil {
		return folders{}, fmt.Errorf("making a folder for the engine: %w", err)
	}
	return f, nil
}

// locked opens a folder and locks it, which fails when another process has.
func locked(path string) (*os.File, error) {
	folder, err := os.Open(path) //nolint:gosec // a name of ours
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = folder.Close()
		return nil, err
	}
	return folder, nil
}

// private makes a folder that only the user can enter, or makes sure that one is
// so.
func private(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("making a private folder: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("looking at a folder: %w", err)
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(status.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%w: %s must be a folder of user %d with mode 0700", errFolder, path, os.Getuid())
	}
	return nil
}

// ownName is the name of a slot file, or of the folder of a process.
var ownName = regexp.MustCompile(`^ollamoon-(\d+)-(\d+|run|calibration-[a-z]+)$`)

// sweep removes from a folder what dead processes have left there.
func sweep(folder string) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return // what is left over takes room, and nothing else
	}
	for _, entry := range entries {
		parts := ownName.FindStringSubmatch(entry.Name())
		if parts == nil {
			continue
		}
		path := filepath.Join(folder, entry.Name())
		if pid, err := strconv.Atoi(parts[1]); err != nil || pid == os.Getpid() || lives(pid) {
			continue
		}
		if !entry.IsDir() {
			_ = os.Remove(path) // as above
			continue
		}
		// Its process may live where process ids are others, as in a container.
		if lock, err := locked(path); err == nil {
			_ = os.RemoveAll(path) // as above
			_ = lock.Close()
		}
	}
}

func lives(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || !errors.Is(err, syscall.ESRCH)
}

// remove removes what is this process's.
func (f folders) remove() {
	_ = os.RemoveAll(f.run) // swept by the next process
	_ = f.lock.Close()
	for _, folder := range []string{f.slots, f.overflow} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			if parts := ownName.FindStringSubmatch(entry.Name()); parts != nil && parts[1] == strconv.Itoa(os.Getpid()) {
				_ = os.RemoveAll(filepath.Join(folder, entry.Name())) // as above
			}
		}
	}
}
