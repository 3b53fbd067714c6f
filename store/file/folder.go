package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	usageName = "usage"
	tempName  = "tmp"
)

func (s *Store) usagePath() string { return filepath.Join(s.dir, usageName) }
func (s *Store) tempDir() string   { return filepath.Join(s.dir, tempName) }

// ErrFolder is returned by Open for a folder that a store must not use.
var ErrFolder = errors.New("store/file: this folder cannot be used")

// prepare makes the folder, or checks the one that is there.
func (s *Store) prepare() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	info, err := os.Stat(s.dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%w: %s is not a folder", ErrFolder, s.dir)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int64(owner.Uid) != int64(os.Geteuid()) {
		return fmt.Errorf("%w: %s is owned by user %d, not by you, user %d: others could put pages into it", ErrFolder, s.dir, owner.Uid, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("%w: %s has mode %04o and is open to others: run chmod 700 on it, or name another", ErrFolder, s.dir, mode)
	}
	if err := s.checkContents(); err != nil {
		return err
	}
	return s.checkFormat()
}

// checkContents refuses a folder that was someone's before: a store makes room
// by removing files.
func (s *Store) checkContents() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	var foreign string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == usageName:
			return nil
		case name != "lost+found" && !strings.HasPrefix(name, "."):
			foreign = name
		}
	}
	if foreign != "" {
		return fmt.Errorf("%w: %s holds other files (%s): name an empty or a new one", ErrFolder, s.dir, foreign)
	}
	return nil
}

// checkFormat makes the usage file, by which a store's folder is known, or reads
// which format it has. Where it cannot be made, the store is for reading.
func (s *Store) checkFormat() error {
	f, err := os.OpenFile(s.usagePath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil //nolint:nilerr // a put says that the store is read-only
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var b [len(usageMagic)]byte
	if n, _ := f.ReadAt(b[:], 0); n == len(b) && string(b[:7]) == usageMagic[:7] && string(b[:]) != usageMagic {
		return fmt.Errorf("%w: %s has the format of another version (%q)", ErrFolder, s.dir, b)
	}
	return nil
}
