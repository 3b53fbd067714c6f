package ollama

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// dyingOptions are those of a child that is killed before one of its changes.
func dyingOptions() Options {
	root := os.Getenv(dirVariable)
	left, err := strconv.Atoi(os.Getenv(stepVariable))
	if err != nil {
		panic(err)
	}
	return Options{
		Host:    Host{Root: root, Path: filepath.Join(root, "usr/local/bin"), OS: "linux"},
		Program: os.Getenv("OLLAMOON_TEST_PROGRAM"),
		before: func(string) error {
			if left--; left < 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			return nil
		},
	}
}

func attachAndDie(ctx context.Context) int {
	if _, err := Attach(ctx, dyingOptions()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func detachAndDie(ctx context.Context) int {
	if _, err := Detach(ctx, dyingOptions()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Killed before any of its changes, attach and detach leave a llama-server that
// works, and a folder that attach completes and detach undoes.
func TestKilledAtEveryStep(t *testing.T) {
	for name, c := range map[string]struct {
		role    string
		version string
		prepare func(i *install)
		least   int // changes that there are at least
	}{
		"attach": {"attach", "1", func(*install) {}, 15},
		"repair": {"attach", "2", func(i *install) {
			i.attach()
			i.release("2")
		}, 8},
		"detach": {"detach", "1", func(i *install) { i.attach() }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			for step := 0; ; step++ {
				// Attach completes it, and detach undoes it, in turn.
				i := newInstall(t)
				c.prepare(i)
				out, err := i.child(c.role, step).CombinedOutput()
				var exit *exec.ExitError
				if err == nil {
					if step < c.least {
						t.Errorf("there are only %d changes", step)
					}
					return
				}
				if !errors.As(err, &exit) || exit.ExitCode() != -1 {
					t.Fatalf("step %d: %v: %s", step, err, out)
				}
				i.works(c.version)
				kept, _ := os.ReadFile(filepath.Join(i.lib, "llama-server.real")) // it may not be there
				server, err := os.ReadFile(filepath.Join(i.lib, "llama-server"))
				if err != nil || string(kept) != serverText(c.version) && string(server) != serverText(c.version) {
					t.Fatalf("step %d: the real llama-server is lost: %v", step, err)
				}
				if step%2 == 0 {
					i.attach()
					i.works(c.version)
					if s := i.state(); s != Attached {
						t.Errorf("step %d: it is %s", step, s)
					}
				}
				i.detach()
				i.works(c.version)
				if s := i.state(); s != Detached {
					t.Errorf("step %d: it is %s", step, s)
				}
				if names := strings.Count(i.snapshot(), "\n"); names != 2 || strings.Contains(i.snapshot(), ".part") {
					t.Errorf("step %d: left are\n%s", step, i.snapshot())
				}
			}
		})
	}
}

// When any change fails, attach leaves all as it was; detach can be run again.
func TestFailingAtEveryStep(t *testing.T) {
	i := newInstall(t)
	before := snapshot(t, i.root)
	reasons := []error{syscall.ENOSPC, syscall.EROFS, fs.ErrPermission}
	step := 0
	for ; ; step++ {
		why := reasons[step%len(reasons)]
		o := i.options()
		o.before = failAt(step, why)
		_, err := Attach(t.Context(), o)
		if err == nil {
			break
		}
		if !errors.Is(err, why) {
			t.Fatalf("step %d: %v", step, err)
		}
		if got := snapshot(t, i.root); got != before {
			t.Fatalf("step %d: %v: it was\n%s\nand is\n%s", step, err, before, got)
		}
		i.works("1")
	}
	if step < 12 { // folders that were made stay
		t.Errorf("only %d changes failed", step)
	}
	i.works("1")
	for step = 0; ; step++ {
		why := reasons[step%len(reasons)]
		i.attach()
		o := i.options()
		o.before = failAt(step, why)
		_, err := Detach(t.Context(), o)
		i.works("1")
		if err == nil {
			break
		}
		if !errors.Is(err, why) {
			t.Fatalf("step %d: %v", step, err)
		}
	}
	if s := i.state(); s != Detached || step < 4 {
		t.Errorf("it is %s after %d steps", s, step)
	}
}

// failAt fails the change of a number, from 0.
func failAt(step int, why error) func(string) error {
	return func(string) error {
		if step--; step == -1 {
			return why
		}
		return nil
	}
}

// A process that runs from the folder keeps running while the name changes hands.
func TestUnderARunningServer(t *testing.T) {
	i := newInstall(t)
	sleep, err := os.ReadFile("/bin/sleep")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(i.lib, "llama-server")
	write(t, path, string(sleep), 0o755)
	var pids []*exec.Cmd
	start := func() {
		cmd := exec.CommandContext(t.Context(), path, "300")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, cmd)
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	if f, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
		_ = f.Close()
	}
	start()
	i.attach()
	start() // behind the stand-in
	i.detach()
	start()
	for n, cmd := range pids {
		if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("process %d: %v", n, err)
		}
	}
}
