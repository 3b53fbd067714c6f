package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ollamoon/internal/installed"
)

// The versions of Mooncake's wheel that scripts/setup.sh installs.
const (
	Version     = "0.3.13.post1"
	VersionOld  = "0.3.11.post1" // for tests: scripts/setup.sh --tests
	installsOld = "scripts/setup.sh --tests"
	installs    = "scripts/setup.sh"
)

// ErrNoPrograms: a version's programs are not installed.
var ErrNoPrograms = errors.New("cluster: Mooncake's programs are not installed")

// Programs returns the folder with the mooncake_master and mooncake_client of a
// version: that of the wheel in a virtual environment mooncake-VERSION. Such
// environments are looked for in the folder that the variable
// OLLAMOON_MOONCAKE_DIR names, or else in .cache of the project that holds the
// working directory or the running program.
func Programs(version string) (string, error) {
	var places []string
	if dir := os.Getenv("OLLAMOON_MOONCAKE_DIR"); dir != "" {
		places = []string{dir}
	} else {
		places = installed.Folders()
	}
	for _, place := range places {
		pattern := filepath.Join(place, "mooncake-"+version, "lib", "python3.*", "site-packages", "mooncake", "mooncake_master")
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("looking for Mooncake %s: %w", version, err)
		}
		if len(found) > 0 {
			return filepath.Dir(found[0]), nil
		}
	}
	command := installs
	if version == VersionOld {
		command = installsOld
	}
	return "", fmt.Errorf("%w: version %s, looked for in %v; run %s", ErrNoPrograms, version, places, command)
}

// python returns the interpreter of the virtual environment that holds programs.
func python(programs string) string {
	return filepath.Join(programs, "..", "..", "..", "..", "bin", "python")
}
