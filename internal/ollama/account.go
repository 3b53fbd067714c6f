package ollama

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// ErrAccount: it cannot be told as whom Ollama runs.
var ErrAccount = errors.New("the user as whom Ollama runs is not known")

// An Account is the user as whom Ollama runs.
type Account struct {
	Name     string
	UID, GID int
	Groups   []int
	Cache    string // the folder of the user's caches
	Why      string // how it is known
}

// account returns the user as whom an installation's Ollama runs: the one that is
// named, or else the service's, that of a running server, for whom it was attached
// before, or whoever asks.
func (h Host) account(i Installation, named string) (Account, error) {
	unit, service := h.service(i)
	switch {
	case named != "":
		return accountOf(named, "", "", "--user")
	case service && unit.DynamicUser:
		return Account{}, fmt.Errorf("%w: %s has DynamicUser; name a user by --user whose folder the service may write to", ErrAccount, unit.Path)
	case service:
		name := unit.User
		if name == "" {
			name = "0"
		}
		return accountOf(name, unit.Environment["HOME"], unit.Environment["XDG_CACHE_HOME"], unit.Path)
	}
	for _, p := range h.processes() {
		if resolved, err := filepath.EvalSymlinks(p.Program); err == nil && resolved == i.Program && p.UID >= 0 {
			return accountOf(strconv.Itoa(p.UID), h.environment(p, "HOME"), h.environment(p, "XDG_CACHE_HOME"), fmt.Sprintf("running as process %d", p.PID))
		}
	}
	if owner, ok := h.storeOwner(i); ok {
		return owner, nil
	}
	if invoker := os.Getenv("SUDO_UID"); invoker != "" && os.Getuid() == 0 {
		return accountOf(invoker, "", "", "who runs this by sudo")
	}
	return accountOf(strconv.Itoa(os.Getuid()), os.Getenv("HOME"), os.Getenv("XDG_CACHE_HOME"), "who runs this")
}

// storeOwner returns the user for whom an earlier attach has made the store.
func (h Host) storeOwner(i Installation) (Account, bool) {
	path, err := h.settingsFile(i)
	if err != nil {
		return Account{}, false
	}
	s, err := loadSettings(path)
	if err != nil {
		return Account{}, false
	}
	dir, ok := storeFolder(s.Store)
	info, err := os.Stat(dir)
	if !ok || err != nil {
		return Account{}, false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Account{}, false
	}
	a, err := accountOf(strconv.Itoa(int(owner.Uid)), "", "", "owner of the store")
	return a, err == nil
}

// service returns the unit that runs this installation's Ollama.
func (h Host) service(i Installation) (Unit, bool) {
	unit, ok := h.unit()
	if !ok {
		return Unit{}, false
	}
	program, err := filepath.EvalSymlinks(h.at(unit.Program()))
	if err != nil {
		return Unit{}, false
	}
	for _, lib := range h.libsOf(program) {
		if resolved, err := filepath.EvalSymlinks(lib); err == nil && resolved == i.Lib {
			return unit, true
		}
	}
	return Unit{}, false
}

// accountOf returns a user by name or number; home and cache, if not empty, are
// those of the user's environment.
func accountOf(name, home, cache, why string) (Account, error) {
	found, err := user.Lookup(name)
	if _, number := strconv.Atoi(name); number == nil {
		found, err = user.LookupId(name)
	}
	if err != nil {
		return Account{}, fmt.Errorf("%w (%s): %w", ErrAccount, why, err)
	}
	a := Account{Name: found.Username, Cache: cache, Why: why}
	var uidErr, gidErr error
	a.UID, uidErr = strconv.Atoi(found.Uid)
	a.GID, gidErr = strconv.Atoi(found.Gid)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return Account{}, fmt.Errorf("%w (%s): %w", ErrAccount, why, err)
	}
	if groups, err := found.GroupIds(); err == nil {
		for _, g := range groups {
			if id, err := strconv.Atoi(g); err == nil {
				a.Groups = append(a.Groups, id)
			}
		}
	}
	if home == "" {
		home = found.HomeDir
	}
	if a.Cache == "" {
		a.Cache = filepath.Join(home, ".cache")
	}
	return a, nil
}

// own reports whether this process runs as the account.
func (a Account) own() bool { return a.UID == os.Geteuid() }

// as makes a command run as the account, if this process may do that.
func (a Account) as(cmd *exec.Cmd) (possible bool) {
	if a.own() {
		return true
	}
	if os.Geteuid() != 0 {
		return false
	}
	groups := make([]uint32, len(a.Groups))
	for i, g := range a.Groups {
		groups[i] = uint32(g) //nolint:gosec // a group's number
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID), Groups: groups}} //nolint:gosec // as above
	return true
}

// may reports whether the account may read ("-r"), write to ("-w") or enter or
// run ("-x") a path; where this process cannot find out, it may.
func (a Account) may(ctx context.Context, mode, path string) bool {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `test "$1" "$2"`, "sh", mode, path) //nolint:gosec // no part of the script
	return !a.as(cmd) || cmd.Run() == nil
}
