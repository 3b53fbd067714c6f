package ollama

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is also the other processes that the tests need.
const (
	roleVariable = "OLLAMOON_OLLAMA_TEST_ROLE"
	dirVariable  = "OLLAMOON_OLLAMA_TEST_DIR"
	stepVariable = "OLLAMOON_OLLAMA_TEST_STEP"
	wait         = 90 * time.Second
)

var roles = map[string]func(context.Context) int{
	"attach":    attachAndDie,
	"detach":    detachAndDie,
	"full disk": useSmallDisk,
}

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv(roleVariable)]; ok {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		code := role(ctx)
		cancel()
		os.Exit(code)
	}
	defer func() { _ = os.RemoveAll(built.dir) }()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(built.dir)
		os.Exit(code)
	}))
}

// built is this project's program.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// program returns the program that becomes the stand-in.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "ollamoon-test-"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(built.dir, "ollamoon"), "ollamoon/cmd/ollamoon") //nolint:noctx // ends by itself
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
		_ = os.Chmod(built.dir, 0o755) //nolint:gosec // other users run it
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "ollamoon")
}

// An install is an Ollama in a root of its own.
type install struct {
	t    *testing.T
	root string
	lib  string
}

// serverText is a llama-server of a version.
func serverText(version string) string {
	return "#!/bin/sh\necho version: " + version + " \"$@\"\n"
}

// write makes a file and its folders.
func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as installed
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// newInstall makes an installation as a package does, and homes for the user.
func newInstall(t *testing.T) *install {
	t.Helper()
	program(t) // before the home of Go's cache is another
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{root, filepath.Dir(root)} {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // other users come here
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", filepath.Join(root, "home"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(root, "home", ".config"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "home", ".cache"))
	t.Setenv("SUDO_UID", "")
	i := &install{t: t, root: root, lib: filepath.Join(root, "usr/local/lib/ollama")}
	write(t, filepath.Join(root, "usr/local/bin/ollama"), "#!/bin/sh\necho ollama version is 0.99.1\n", 0o755)
	write(t, filepath.Join(i.lib, "libggml.so"), "library", 0o644)
	i.release("1")
	return i
}

// release puts a version's llama-server in place, as tar does.
func (i *install) release(version string) {
	i.t.Helper()
	path := filepath.Join(i.lib, "llama-server")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		i.t.Fatal(err)
	}
	write(i.t, path, serverText(version), 0o755)
	if err := os.Chmod(path, 0o775); err != nil { //nolint:gosec // a mode to be told from others
		i.t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Date(2026, 8, 21, 1, 2, 3, 4000, time.UTC)); err != nil {
		i.t.Fatal(err)
	}
}

func (i *install) host() Host {
	return Host{Root: i.root, Path: filepath.Join(i.root, "usr/local/bin"), OS: "linux"}
}

func (i *install) options(set ...string) Options {
	o := Options{Host: i.host(), Program: program(i.t), Set: map[string]string{}}
	for n := 0; n < len(set); n += 2 {
		o.Set[set[n]] = set[n+1]
	}
	return o
}

func (i *install) attach(set ...string) *Result {
	i.t.Helper()
	r, err := Attach(i.t.Context(), i.options(set...))
	if err != nil {
		i.t.Fatal(err)
	}
	return r
}

func (i *install) detach() *Result {
	i.t.Helper()
	r, err := Detach(i.t.Context(), i.options())
	if err != nil {
		i.t.Fatal(err)
	}
	return r
}

// snapshot is what is in the lib folder: of each name its kind, mode, owner, time
// and contents.
func (i *install) snapshot() string {
	i.t.Helper()
	return snapshot(i.t, i.lib)
}

func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			return err
		}
		var content string
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path) //nolint:gosec // nobody else changes the tree
			if err != nil {
				return err
			}
			content = string(data)
		} else if content, err = os.Readlink(path); err != nil {
			return err
		}
		s := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %v %d:%d %d %q\n", strings.TrimPrefix(path, dir), info.Mode(), s.Uid, s.Gid, info.ModTime().UnixNano(), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// works runs the llama-server that Ollama would, which has to be a version's, by
// itself or behind the stand-in.
func (i *install) works(version string) {
	i.t.Helper()
	cmd := exec.CommandContext(i.t.Context(), filepath.Join(i.lib, "llama-server"), "--version")
	cmd.Env = []string{"PATH=/bin:/usr/bin", "HOME=" + i.root}
	out, err := cmd.Output()
	if err != nil || strings.TrimSpace(string(out)) != "version: "+version+" --version" {
		i.t.Errorf("llama-server says %s: %v", out, err)
	}
}

// state is that of the lib folder.
func (i *install) state() State {
	i.t.Helper()
	s, err := Look(i.t.Context(), i.options())
	if err != nil {
		i.t.Fatal(err)
	}
	return s.Folders[0].State
}

// child returns a process that plays a role in an installation.
func (i *install) child(role string, step int) *exec.Cmd {
	cmd := exec.CommandContext(i.t.Context(), os.Args[0]) //nolint:gosec // this binary
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+i.root, fmt.Sprintf("%s=%d", stepVariable, step), "OLLAMOON_TEST_PROGRAM="+program(i.t))
	return cmd
}
