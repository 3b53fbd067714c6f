package up

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// folderPrefix begins the names of runs' folders.
const folderPrefix = "ollamoon-up-"

// A folder is that of a run, closed to other users.
type folder struct {
	path string
	lock *os.File // the folder, locked as long as the run lasts
}

// openFolder makes a folder for a run, after it has removed what runs that are no
// more have left.
func openFolder() (folder, error) {
	sweep(os.TempDir())
	path, err := os.MkdirTemp("", folderPrefix)
	if err != nil {
		return folder{}, fmt.Errorf("making a folder for the run: %w", err)
	}
	lock, err := locked(path)
	if err != nil {
		_ = os.Remove(path)
		return folder{}, fmt.Errorf("locking the run's folder: %w", err)
	}
	return folder{path, lock}, nil
}

// sweep removes the folders of runs that hold them no longer. Other users' cannot
// be opened.
func sweep(parent string) {
	left, err := filepath.Glob(filepath.Join(parent, folderPrefix+"*"))
	if err != nil {
		return // the pattern is right
	}
	for _, path := range left {
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			continue
		}
		if lock, err := locked(path); err == nil {
			_ = os.RemoveAll(path) // else the next run does
			_ = lock.Close()
		}
	}
}

// locked opens a folder and locks it, which fails when another process has.
func locked(path string) (*os.File, error) {
	f, err := os.Open(path) //nolint:gosec // a name of ours
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// secretBytes is how long secrets are; in files they are hexadecimal.
const secretBytes = 32

// secret makes a file with a new secret and returns its path.
func (f folder) secret(name string) (string, error) {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails
	path := filepath.Join(f.path, name)
	if err := os.WriteFile(path, []byte(hex.EncodeToString(b)+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("writing a secret: %w", err)
	}
	return path, nil
}

// remove removes the folder with all that is in it.
func (f folder) remove() error {
	err := os.RemoveAll(f.path)
	_ = f.lock.Close()
	if err != nil {
		return fmt.Errorf("removing the run's folder: %w", err)
	}
	return nil
}
