package standin

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
)

// ErrNoBinary: the real llama-server was not found.
var ErrNoBinary = errors.New("standin: no real llama-server")

const (
	realName = "llama-server.real" // beside the stand-in
	name     = "llama-server"      // on the PATH
)

// findBinary returns the real llama-server: the one that is named, or else the
// first of those beside this program, whether by the name it was started under or
// by its own, and of those on the PATH that are not stand-ins themselves.
func findBinary(named, startedAs, searchPath string) (string, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		switch {
		case err != nil:
			return "", fmt.Errorf("%w: %w", ErrNoBinary, err)
		case standsIn(path):
			return "", fmt.Errorf("%w: %s is this program", ErrNoBinary, named)
		}
		return filepath.Abs(path)
	}
	var candidates []string
	if path, err := exec.LookPath(startedAs); err == nil {
		candidates = append(candidates, filepath.Join(filepath.Dir(path), realName))
	}
	if self, err := os.Executable(); err == nil {
		candidates = append(candidates, filepath.Join(filepath.Dir(self), realName))
	}
	for _, folder := range filepath.SplitList(searchPath) {
		candidates = append(candidates, filepath.Join(folder, name))
	}
	for _, path := range candidates {
		if path, err := exec.LookPath(path); err == nil && !standsIn(path) {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("%w beside this program as %s, nor on PATH as %s; name it by --ollamoon-binary, OLLAMOON_BINARY or binary in the settings file",
		ErrNoBinary, realName, name)
}

// standsIn reports whether a program is this one, or another build of it: to run
// that in the place of the engine would never come to an end.
func standsIn(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // the user's program
	if err != nil {
		return false
	}
	if self, err := os.Executable(); err == nil {
		if own, err := os.Stat(self); err == nil && os.SameFile(own, info) {
			return true
		}
	}
	own, ok := debug.ReadBuildInfo()
	other, err := buildinfo.ReadFile(path)
	return ok && err == nil && other.Main.Path == own.Main.Path
}
