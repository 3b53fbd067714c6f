// Package installed finds what scripts/setup.sh has installed: in .cache of the
// project, a folder with a go.mod, that holds the working directory or the
// running program.
package installed

import (
	"os"
	"path/filepath"
)

// Folders returns the .cache folders to look in, the working directory's first.
// They need not exist.
func Folders() []string {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if program, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(program))
	}
	var found []string
	for _, dir := range starts {
		if root, ok := project(dir); ok {
			found = append(found, filepath.Join(root, ".cache"))
		}
	}
	return found
}

// project returns the nearest folder with a go.mod, from dir upwards.
func project(dir string) (root string, ok bool) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}
