package ollama

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// runTime bounds a look at a program's version.
const runTime = 20 * time.Second

// ErrProgram: the stand-in would not run where Ollama is.
var ErrProgram = errors.New("the stand-in does not run in Ollama's place")

// Options say what to attach to, and how.
type Options struct {
	Host
	Lib     string            // the lib folder; empty: looked for
	Program string            // this program, of which the stand-in is a copy
	User    string            // as whom Ollama runs; empty: found out
	Set     map[string]string // settings by name; what is not set stays as it is

	before func(change string) error // of each change to a file
}

// A Result says what was done.
type Result struct {
	Installation
	Before   []State // of each of the Folders
	Changed  bool
	Account  Account
	Settings string // the file
	Store    string // URL of the store
	Restart  string // what makes a running Ollama take notice; empty: nothing
	Notes    []string
}

// An attachment is a change that is under way.
type attachment struct {
	Options
	disk    disk
	folders []folder
	result  *Result
	undo    []func() error // what is to be done, the last first, when it fails
}

// Attach puts the stand-in into an installation, repairs one that an update or an
// interruption has left, and brings one that is there up to date. When it fails
// the files are those that were there before.
func Attach(ctx context.Context, o Options) (*Result, error) {
	a, release, err := begin(o)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := a.mayChange(a.result.Installation, a.result.Settings); err != nil {
		return nil, err
	}
	if err := a.attach(ctx); err != nil {
		for _, undo := range slices.Backward(a.undo) {
			err = errors.Join(err, undo())
		}
		return nil, fmt.Errorf("attaching to %s: %w", a.result.Lib, hint(err))
	}
	a.result.Restart = a.restart(a.result.Installation)
	return a.result, nil
}

// begin finds the installation, and keeps others from changing it.
func begin(o Options) (*attachment, func(), error) {
	installation, err := o.Find(o.Lib)
	if err != nil {
		return nil, nil, err
	}
	a := &attachment{Options: o, disk: disk{o.before}, result: &Result{Installation: installation}}
	if a.result.Settings, err = o.settingsFile(installation); err != nil {
		return nil, nil, err
	}
	var releases []func()
	release := func() {
		for _, r := range releases {
			r()
		}
	}
	for _, path := range installation.Folders {
		f := folder{path: path, disk: a.disk}
		unlock, err := f.lock()
		if err != nil {
			release()
			return nil, nil, err
		}
		releases = append(releases, unlock)
		state, err := f.state(a.result.Settings)
		if err == nil && state == Lost {
			err = fmt.Errorf("%s: %w", path, ErrLost)
		}
		if err != nil {
			release()
			return nil, nil, err
		}
		a.folders = append(a.folders, f)
		a.result.Before = append(a.result.Before, state)
	}
	return a, release, nil
}

func (a *attachment) attach(ctx context.Context) error {
	account, err := a.account(a.result.Installation, a.User)
	if err != nil {
		return err
	}
	a.result.Account = account
	if err := a.settle(ctx); err != nil {
		return err
	}
	for i, f := range a.folders {
		if err := a.place(ctx, f, a.result.Before[i]); err != nil {
			return err
		}
	}
	if err := a.disk.remove(detachedSettings(a.result.Settings)); err != nil {
		return err
	}
	return nil
}

// settle writes the settings and makes the store's folder.
func (a *attachment) settle(ctx context.Context) error {
	path := a.result.Settings
	data, err := compose(path, a.result.Lib, a.Set, a.result.Account)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path) //nolint:gosec // the user's settings
	was := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a.undo = append(a.undo, func() error {
		if !was {
			return a.disk.remove(path)
		}
		_, err := a.disk.writeSettings(path, old)
		return err
	})
	changed, err := a.disk.writeSettings(path, data)
	if err != nil {
		return err
	}
	a.result.Changed = a.result.Changed || changed
	s, err := loadSettings(path)
	if err != nil {
		return err
	}
	a.result.Store = s.Store
	if dir, ok := storeFolder(s.Store); ok {
		if err := a.prepareStore(ctx, dir); err != nil {
			return err
		}
	}
	if s.SealKeyFile != "" && !a.result.Account.may(ctx, "-r", s.SealKeyFile) {
		a.note("%s is to be read by user %s and cannot be: chown it, with mode 0400", s.SealKeyFile, a.result.Account.Name)
	}
	return nil
}

func (a *attachment) note(format string, args ...any) {
	a.result.Notes = append(a.result.Notes, fmt.Sprintf(format, args...))
}

// place puts the stand-in into one folder.
func (a *attachment) place(ctx context.Context, f folder, before State) error {
	if before == Detached || before == Interrupted {
		a.undo = append(a.undo, f.restore)
	} else {
		a.undo = append(a.undo, f.sweep)
	}
	if err := f.sweep(); err != nil {
		return err
	}
	target, err := os.Readlink(f.link())
	pointed := a.result.Settings == f.link() || err == nil && target == a.result.Settings
	if before == Attached && pointed && equal(a.Program, f.server()) {
		return nil
	}
	a.result.Changed = true
	part := f.part(f.server())
	if err := a.disk.copy(a.Program, part, 0o755); err != nil {
		return err
	}
	if _, err := version(ctx, part, a.result.Account); err != nil {
		return fmt.Errorf("%w, as user %s: %w", ErrProgram, a.result.Account.Name, err)
	}
	if err := f.point(a.result.Settings); err != nil {
		return err
	}
	if before != Attached && before != Missing && !f.linked() {
		if err := f.keep(); err != nil {
			return err
		}
		if err := a.disk.sync(f.path); err != nil {
			return err
		}
	}
	if err := a.disk.rename(part, f.server()); err != nil {
		return err
	}
	return a.disk.sync(f.path)
}

// version runs a program of this project as an account, and returns its version.
func version(ctx context.Context, program string, account Account) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Args[0] = "ollamoon" // not llama-server
	account.as(cmd)
	out, err := cmd.Output()
	words := strings.Fields(string(out))
	if err == nil && len(words) == 0 {
		err = errors.New("it does not tell its version")
	}
	if err != nil {
		return "", err
	}
	return words[len(words)-1], nil
}

// Detach takes the stand-in out of an installation. The settings stay under
// another name, for the next time, and the store as it is.
func Detach(_ context.Context, o Options) (*Result, error) {
	a, release, err := begin(o)
	if err != nil {
		return nil, err
	}
	defer release()
	r := a.result
	for i, f := range a.folders {
		if err := f.restore(); err != nil {
			return nil, fmt.Errorf("detaching from %s: %w", r.Lib, hint(err))
		}
		r.Changed = r.Changed || r.Before[i] != Detached
	}
	if s, err := loadSettings(r.Settings); err == nil {
		r.Store = s.Store
	}
	own := a.mayChange(r.Installation, r.Settings) == nil
	if own && exists(r.Settings) && r.Settings != a.folders[0].link() {
		if err := a.disk.rename(r.Settings, detachedSettings(r.Settings)); err != nil {
			return nil, fmt.Errorf("detaching from %s: its settings: %w", r.Lib, hint(err))
		}
		r.Changed = true
	}
	r.Restart = a.restart(r.Installation)
	return r, nil
}

// restart is what makes a running Ollama use another llama-server for the models
// that it has loaded; empty when none runs.
func (h Host) restart(i Installation) string {
	if unit, ok := h.service(i); ok {
		if _, err := os.Stat(h.at("/run/systemd/system")); err == nil && unit.Path != "" {
			return "systemctl restart ollama"
		}
	}
	for _, p := range h.processes() {
		if p.Program == i.Program {
			return fmt.Sprintf("stop \"ollama serve\" (process %d) and start it again", p.PID)
		}
	}
	return ""
}

// hint adds to an error what to do about it.
func hint(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w; make room and try again", err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w; unpack Ollama's archive where it can be written, and name that by --lib", err)
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return fmt.Errorf("%w; run it with sudo", err)
	}
	return err
}
