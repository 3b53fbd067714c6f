package ollama

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// ErrStore: the store's folder is not one that Ollama's user can keep pages in.
var ErrStore = errors.New("the store's folder cannot be used")

// prepareStore makes the folder of a store, for Ollama's user, or checks the one
// that is there.
func (a *attachment) prepareStore(ctx context.Context, dir string) error {
	account := a.result.Account
	if unit, ok := a.service(a.result.Installation); ok {
		if why := unit.keepsOut(dir); why != "" {
			return fmt.Errorf("%w: %s in %s keeps the service from writing to %s; name another by --store file:FOLDER, or add ReadWritePaths=%s",
				ErrStore, why, unit.Path, dir, dir)
		}
	}
	if !exists(dir) {
		if !account.own() && os.Geteuid() != 0 {
			a.note("%s is to be made by user %s, as this user cannot", dir, account.Name)
			return nil
		}
		if err := a.disk.mkdir(dir, 0o700, account); err != nil {
			return err
		}
		a.result.Changed = true
	}
	return checkStore(ctx, dir, account)
}

// checkStore returns why an account could not keep pages in a folder.
func checkStore(ctx context.Context, dir string, account Account) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is not there; ollamoon attach makes it", ErrStore, dir)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	owner, _ := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%w: %s is no folder", ErrStore, dir)
	case owner != nil && int(owner.Uid) != account.UID:
		return fmt.Errorf("%w: %s belongs to user %d, and Ollama runs as %s (%s): chown -R %s %s", ErrStore, dir, owner.Uid, account.Name, account.Why, account.Name, dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("%w: %s is open to others (mode %04o): chmod 700 %s", ErrStore, dir, info.Mode().Perm(), dir)
	case !account.may(ctx, "-w", dir):
		return fmt.Errorf("%w: user %s cannot write to %s: see the rights of the folders above it", ErrStore, account.Name, dir)
	}
	return nil
}

// CheckStore returns why the user who runs this could not keep pages in a folder.
func CheckStore(ctx context.Context, dir string) error {
	me, err := accountOf(strconv.Itoa(os.Geteuid()), "", "", "who runs this")
	if err != nil {
		return err
	}
	return checkStore(ctx, dir, me)
}
