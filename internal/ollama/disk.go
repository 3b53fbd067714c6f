package ollama

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A disk changes files, one change a call. Before each, before may put an error
// in its place.
type disk struct{ before func(change string) error }

// do makes a change.
func (d disk) do(change string, how func() error) error {
	if d.before != nil {
		if err := d.before(change); err != nil {
			return fmt.Errorf("%s: %w", change, err)
		}
	}
	return how()
}

func (d disk) rename(from, to string) error {
	return d.do("rename "+filepath.Base(from), func() error { return os.Rename(from, to) })
}

// remove removes a file, if it is there.
func (d disk) remove(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return d.do("remove "+filepath.Base(path), func() error { return os.Remove(path) })
}

func (d disk) symlink(target, path string) error {
	return d.do("symlink "+filepath.Base(path), func() error { return os.Symlink(target, path) })
}

// link gives a file a second name, or, where the file system or the file's owner
// keeps that from being done, makes a copy with its mode, owner and times.
func (d disk) link(from, to string) error {
	err := d.do("link "+filepath.Base(to), func() error { return os.Link(from, to) })
	if !errors.Is(err, syscall.EPERM) && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EMLINK) {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := d.copy(from, to, info.Mode().Perm()); err != nil {
		return err
	}
	return d.do("keep owner and times "+filepath.Base(to), func() error {
		if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
			if err := os.Chown(to, int(s.Uid), int(s.Gid)); err != nil {
				return err
			}
		}
		return os.Chtimes(to, info.ModTime(), info.ModTime())
	})
}

// copy makes a file with the contents of another, on the disk when it returns.
func (d disk) copy(from, to string, mode fs.FileMode) error {
	source, err := os.Open(from) //nolint:gosec // a program
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // read only
	return d.fill(to, mode, func(w io.Writer) error {
		_, err := io.Copy(w, source)
		return err
	})
}

// write makes a file with data, on the disk when it returns.
func (d disk) write(path string, data []byte, mode fs.FileMode) error {
	return d.fill(path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

func (d disk) fill(path string, mode fs.FileMode, with func(io.Writer) error) error {
	var f *os.File
	err := d.do("create "+filepath.Base(path), func() (err error) {
		f, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // a name of ours
		return err
	})
	if err != nil {
		return err
	}
	err = d.do("write "+filepath.Base(path), func() error { return with(f) })
	if err == nil {
		err = d.do("sync "+filepath.Base(path), func() error { return errors.Join(f.Chmod(mode), f.Sync()) })
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, d.remove(path)) // it is of no use
	}
	return err
}

// sync puts the names of a folder onto the disk.
func (d disk) sync(folder string) error {
	return d.do("sync "+filepath.Base(folder), func() error {
		f, err := os.Open(folder) //nolint:gosec // a folder of Ollama's
		if err != nil {
			return err
		}
		err = f.Sync()
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
			err = nil // a file system that has no such thing
		}
		return errors.Join(err, f.Close())
	})
}

// mkdir makes a folder and those above it, for the account.
func (d disk) mkdir(path string, mode fs.FileMode, a Account) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.mkdir(filepath.Dir(path), 0o755, a); err != nil {
		return err
	}
	return d.do("mkdir "+filepath.Base(path), func() error {
		if err := os.Mkdir(path, mode); err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil || a.own() {
			return err
		}
		return os.Chown(path, a.UID, a.GID)
	})
}
