// Package wholefile writes files whole or not at all, and replaces nothing but
// files.
package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrTarget is wrapped when a path names something that a file must not take the
// place of: a folder, a device, a socket.
var ErrTarget = errors.New("not a file")

// Check returns an error when Write could not put a file at path: its folder is
// not there or cannot be written to, or path names something else than a file.
func Check(path string) error {
	target, err := resolve(path)
	if err != nil {
		return err
	}
	probe, err := os.CreateTemp(filepath.Dir(target), ".ollamoon-*.part")
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// Write puts a file with the data at path, readable by all, where there was a file
// or nothing. A link is followed.
func Write(path string, data []byte) error {
	target, err := resolve(path)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(target), ".ollamoon-*.part")
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(0o644), temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), target)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // it is of no use
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// resolve follows links and returns the path of a file, or of nothing yet.
func resolve(path string) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if info.IsDir() {
		return "", fmt.Errorf("%s: %w but a folder; name a file in it", path, ErrTarget)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: %w", path, ErrTarget)
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return target, nil
}
