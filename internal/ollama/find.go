package ollama

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"ollamoon/internal/standin"
)

var (
	// ErrNotFound: there is no Ollama in the places where one would be.
	ErrNotFound = errors.New("no Ollama is found")
	// ErrNoServer: an Ollama is there, and no llama-server in its lib folder.
	ErrNoServer = errors.New("there is no llama-server in Ollama's lib folder")
	// ErrSeveral: there are several installations, of which one has to be named.
	ErrSeveral = errors.New("there are several installations of Ollama")
	// ErrSigned: the llama-server is part of an app for macOS.
	ErrSigned = errors.New("the Ollama app for macOS is signed, and would not start with a file changed")
)

// A Host is where to look. The zero value is this machine; the fields stand for
// parts of it.
type Host struct {
	Root string // before the paths of the system's files
	Path string // in the place of PATH
	OS   string // in the place of the operating system
}

func (h Host) at(path string) string { return filepath.Join("/", h.Root, path) }

func (h Host) system() string {
	if h.OS != "" {
		return h.OS
	}
	return runtime.GOOS
}

func (h Host) searchPath() string {
	if h.Path != "" {
		return h.Path
	}
	return os.Getenv("PATH")
}

// An Installation is an Ollama whose models run in a llama-server.
type Installation struct {
	Lib     string   // the folder of its libraries
	Folders []string // Lib, or folders in it: those that hold a llama-server
	Program string   // ollama itself; empty: not known
}

// libs are where packages and archives put Ollama's libraries.
var libs = []string{"/usr/local/lib/ollama", "/usr/lib/ollama", "/usr/lib64/ollama", "/opt/ollama/lib/ollama"}

// Find returns the installation in a folder: its lib folder, or the one that an
// archive was unpacked into. Without a folder it looks where Ollama usually is:
// beside the ollama on the PATH, beside those that run or that the service
// starts, and in the places of packages.
func (h Host) Find(folder string) (Installation, error) {
	if folder != "" {
		return h.in(folder)
	}
	var found []Installation
	programs := h.programs()
	for _, program := range programs {
		for _, lib := range h.libsOf(program) {
			found = add(found, lib, program)
		}
	}
	for _, lib := range libs {
		found = add(found, h.at(lib), "")
	}
	switch {
	case len(found) == 1:
		return found[0], h.unsigned(found[0])
	case len(found) > 1:
		var names []string
		for _, i := range found {
			names = append(names, i.Lib)
		}
		return Installation{}, fmt.Errorf("%w: name one, as in --lib %s; there are %s", ErrSeveral, names[0], strings.Join(names, ", "))
	case len(programs) > 0:
		return Installation{}, fmt.Errorf("%w: looked beside %s; older versions of Ollama run models without one: update Ollama, or name the folder by --lib",
			ErrNoServer, strings.Join(programs, ", "))
	}
	return Installation{}, fmt.Errorf("%w on PATH, as a service, running or in %s: name the folder of its libraries by --lib", ErrNotFound, strings.Join(libs, ", "))
}

// in returns the installation of a folder that is named.
func (h Host) in(folder string) (Installation, error) {
	path, err := filepath.Abs(folder)
	if err != nil {
		return Installation{}, fmt.Errorf("the lib folder: %w", err)
	}
	for _, lib := range []string{path, filepath.Join(path, "lib", "ollama"), filepath.Join(path, "..", "lib", "ollama")} {
		if found := add(nil, lib, ""); len(found) == 1 {
			for _, program := range []string{"../../bin/ollama", "../ollama", "ollama"} {
				if candidate := filepath.Join(found[0].Lib, program); found[0].Program == "" && executable(candidate) {
					found[0].Program = candidate
				}
			}
			return found[0], h.unsigned(found[0])
		}
	}
	if _, err := os.Stat(path); err != nil {
		return Installation{}, fmt.Errorf("the lib folder: %w", err)
	}
	return Installation{}, fmt.Errorf("%w: not in %s", ErrNoServer, path)
}

// unsigned returns ErrSigned, with what to do, for a part of an app.
func (h Host) unsigned(i Installation) error {
	if !strings.Contains(i.Lib+"/", ".app/Contents/") {
		return nil
	}
	return fmt.Errorf(`%w. What works instead:
  - Ollama from Homebrew's formula (not the cask), or from ollama-darwin.tgz unpacked into a folder:
      ollamoon attach --lib FOLDER      the folder that holds its llama-server
  - no Ollama in between: ollamoon llama-server -m MODEL.gguf`, ErrSigned)
}

// programs are the ollama programs of this host, links resolved.
func (h Host) programs() []string {
	var candidates []string
	for _, folder := range filepath.SplitList(h.searchPath()) {
		candidates = append(candidates, filepath.Join(folder, "ollama"))
	}
	if unit, ok := h.unit(); ok {
		candidates = append(candidates, h.at(unit.Program()))
	}
	for _, p := range h.processes() {
		candidates = append(candidates, p.Program)
	}
	if h.system() == "darwin" {
		candidates = append(candidates, h.at("/Applications/Ollama.app/Contents/Resources/ollama"))
	}
	var programs []string
	for _, candidate := range candidates {
		resolved, err := filepath.EvalSymlinks(candidate)
		if err == nil && executable(resolved) && !slices.Contains(programs, resolved) {
			programs = append(programs, resolved)
		}
	}
	return programs
}

// libsOf are the folders in which a program of Ollama's looks for llama-server.
func (h Host) libsOf(program string) []string {
	bin := filepath.Dir(program)
	if h.system() == "darwin" {
		return []string{bin, filepath.Join(bin, "..", "lib", "ollama"), filepath.Join(bin, "..", "libexec")}
	}
	return []string{filepath.Join(bin, "..", "lib", "ollama"), filepath.Join(bin, "lib", "ollama")}
}

// add adds the installation of a lib folder, if it is one and not there yet.
func add(found []Installation, lib, program string) []Installation {
	lib, err := filepath.EvalSymlinks(lib)
	if err != nil {
		return found
	}
	for i := range found {
		if found[i].Lib == lib {
			if found[i].Program == "" {
				found[i].Program = program
			}
			return found
		}
	}
	below, _ := filepath.Glob(filepath.Join(escape(lib), "*")) // the pattern is sound
	var folders []string
	for _, folder := range append([]string{lib}, below...) {
		for _, name := range []string{standin.Name, standin.RealName} {
			if executable(filepath.Join(folder, name)) && !slices.Contains(folders, folder) {
				folders = append(folders, folder)
			}
		}
	}
	if folders == nil {
		return found
	}
	return append(found, Installation{Lib: lib, Folders: folders, Program: program})
}

// escape returns a pattern that matches a path and nothing else.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func executable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil && filepath.IsAbs(path)
}
