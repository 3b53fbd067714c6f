package standin

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"

	"ollamoon/internal/settings"
)

// ErrNoBinary: the real llama-server was not found.
var ErrNoBinary = errors.New("standin: no real llama-server")

const (
	// RealName is that of the real llama-server beside a stand-in.
	RealName = "llama-server.real"
	// Name is that of a llama-server, and of a program that stands in for it.
	Name = "llama-server"
)

// settingsBeside is the file of settings beside a program that was started under
// the name of a llama-server.
func settingsBeside(startedAs string) string {
	path, err := exec.LookPath(startedAs)
	if err != nil || filepath.Base(startedAs) != Name {
		return ""
	}
	return filepath.Join(filepath.Dir(path), settings.FileName)
}

// unset ends a run whose settings cannot be read. In the place of an installed
// llama-server, whose user has given it no settings, the real one runs by itself:
// a mistake in a file must not keep it from serving.
func unset(why error, startedAs string, args, environ []string) Exit {
	if settingsBeside(startedAs) == "" || settings.Given(args) {
		return failed(why)
	}
	binary, err := FindBinary("", startedAs, os.Getenv("PATH"))
	if err != nil {
		return failed(errors.Join(why, err))
	}
	fmt.Fprintln(os.Stderr, "ollamoon: the real llama-server runs by itself, and prompts are not shared:", why)
	return become(binary, startedAs, args, environ)
}

// FindBinary returns the real llama-server: the one that is named, or else the
// first of those beside this program, whether by the name it was started under or
// by its own, and of those on the PATH that are not stand-ins themselves. The path
// that this program was started by may have become the real one's since.
func FindBinary(named, startedAs, searchPath string) (string, error) {
	if named != "" {
		path, err := exec.LookPath(named)
		switch {
		case err != nil:
			return "", fmt.Errorf("%w: %w", ErrNoBinary, err)
		case StandsIn(path):
			return "", fmt.Errorf("%w: %s is this program", ErrNoBinary, named)
		}
		return filepath.Abs(path)
	}
	var candidates []string
	if path, err := exec.LookPath(startedAs); err == nil {
		candidates = append(candidates, filepath.Join(filepath.Dir(path), RealName))
		if filepath.Base(path) == Name {
			candidates = append(candidates, path)
		}
	}
	if self, err := os.Executable(); err == nil {
		candidates = append(candidates, filepath.Join(filepath.Dir(self), RealName))
	}
	for _, folder := range filepath.SplitList(searchPath) {
		candidates = append(candidates, filepath.Join(folder, Name))
	}
	for _, path := range candidates {
		if path, err := exec.LookPath(path); err == nil && !StandsIn(path) {
			return filepath.Abs(path)
		}
	}
	return "", fmt.Errorf("%w beside this program as %s, nor on PATH as %s; name it by --ollamoon-binary, OLLAMOON_BINARY or binary in the settings file",
		ErrNoBinary, RealName, Name)
}

// StandsIn reports whether a program is this one, or another build of it: to run
// that in the place of the engine would never come to an end.
func StandsIn(path string) bool {
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
