package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ollamoon/store"
)

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "pages")
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	s := open(t, dir, 1<<20)
	put(t, s, "a", "b")
	if _, err := s.reserve(t.Context(), 100, 1<<20); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		return nil
	})
	if err != nil || seen < 8 {
		t.Errorf("%d files and folders, %v", seen, err)
	}
}

func TestFoldersThatCannotBeUsed(t *testing.T) {
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	mkdir := func(name string, mode fs.FileMode) {
		if err := errors.Join(os.Mkdir(in(name), 0o700), os.Chmod(in(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, contents string) {
		if err := os.WriteFile(in(name), []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a file", "")
	mkdir("open to the group", 0o750)
	mkdir("open to all", 0o705)
	mkdir("others' files", 0o700)
	write("others' files/thesis.txt", "")
	mkdir("another version", 0o700)
	write("another version/usage", "OMUSAGE9 and more")
	for name, words := range map[string]string{
		"a file":            "not a directory",
		"a file/below":      "not a directory",
		"open to the group": "chmod 700",
		"open to all":       "chmod 700",
		"others' files":     "thesis.txt",
		"another version":   "another version",
	} {
		_, err := Open(Config{Dir: in(name)})
		if !errors.Is(err, ErrFolder) || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), base) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, c := range []Config{{}, {Dir: in("x"), BudgetBytes: -1}} {
		if _, err := Open(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}

	mkdir("empty", 0o700)
	mkdir("a new disk", 0o700)
	mkdir("a new disk/lost+found", 0o700)
	write("a new disk/.DS_Store", "")
	for _, name := range []string{"empty", "a new disk", "new", "deep/er"} {
		s := open(t, in(name), 0)
		if err := put(t, s, "a")[0]; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.budget != DefaultBudgetBytes {
			t.Errorf("the budget is %d bytes", s.budget)
		}
	}
}

// A folder of another user is refused, whatever its mode.
func TestFoldersOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		_, err := Open(Config{Dir: "/"})
		if !errors.Is(err, ErrFolder) || !strings.Contains(err.Error(), "user 0") {
			t.Errorf("a folder of root's: %v", err)
		}
		return
	}
	dir := newDir(t)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Dir: dir})
	if !errors.Is(err, ErrFolder) || !strings.Contains(err.Error(), fmt.Sprint("user ", nobody)) {
		t.Errorf("a folder of another user: %v", err)
	}
}

// nobody is a user whom modes bind.
const nobody = 65534

// A folder that cannot be written to serves reads. Modes do not bind root, so
// the part that is looked at is another user's process then.
func TestReadOnlyFolder(t *testing.T) {
	dir := newDir(t)
	s := open(t, dir, 1<<20)
	put(t, s, "a", "b")
	change(t, s, "b", func(b []byte) []byte { return b[:10] })
	closeFolder(t, dir)
	if os.Geteuid() != 0 {
		if err := useReadOnly(dir); err != nil {
			t.Error(err)
		}
		return
	}
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) { // the way to it
		if info, err := os.Stat(at); err == nil && at != dir && info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(at, 0o711); err != nil { //nolint:gosec // passing through, for the child
				t.Fatal(err)
			}
		}
	}
	c := startChild(t, "read a folder", dir)
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %s", err, c.Stderr)
	}
}

// closeFolder takes the right to write from everything in a folder, and gives it
// to nobody when the test runs as root. The test's cleanup needs it back.
func closeFolder(t *testing.T, dir string) {
	t.Helper()
	set := func(dirMode, fileMode fs.FileMode) error {
		var all []string
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			all = append(all, path)
			if err == nil && d.IsDir() {
				err = os.Chmod(path, 0o700) //nolint:gosec // a folder
			}
			return err
		})
		for _, path := range all {
			info, statErr := os.Stat(path)
			mode := fileMode
			if statErr == nil && info.IsDir() {
				mode = dirMode
			}
			err = errors.Join(err, statErr, os.Chmod(path, mode))
			if os.Geteuid() == 0 {
				err = errors.Join(err, os.Chown(path, nobody, nobody))
			}
		}
		return err
	}
	if err := set(0o500, 0o400); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set(0o700, 0o600) })
}

// readAsNobody is the child's part of TestReadOnlyFolder.
func readAsNobody() int {
	if err := syscall.Setuid(nobody); err != nil {
		return fail(err)
	}
	if err := useReadOnly(os.Getenv(dirVariable)); err != nil {
		return fail(err)
	}
	return 0
}

func useReadOnly(dir string) error {
	s, err := Open(Config{Dir: dir})
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing was written
	s.renewAfter = 0
	ctx, cancel := childContext()
	defer cancel()
	b := make([]byte, len(object("a")))
	errs := s.BatchGet(ctx, []store.Item{
		{Key: "a", Bytes: b}, {Key: "b", Bytes: make([]byte, len(b))}, {Key: "c", Bytes: make([]byte, len(b))},
	})
	if errs[0] != nil || string(b) != string(object("a")) {
		err = errors.Join(err, fmt.Errorf("reading: %w", errors.Join(errs[0], errors.New("or other bytes"))))
	}
	if !errors.Is(errs[1], store.ErrNotFound) || !errors.Is(errs[2], store.ErrNotFound) {
		err = errors.Join(err, fmt.Errorf("reading what is damaged and what is missing: %v", errs[1:]))
	}
	if present, existErr := s.BatchExist(ctx, []string{"a", "c"}); existErr != nil || !present[0] || present[1] {
		err = errors.Join(err, fmt.Errorf("asking: %v, %w", present, existErr))
	}
	puts := s.BatchPut(ctx, []store.Item{{Key: "c", Bytes: b}, {Key: "a", Bytes: b}})
	if !errors.Is(puts[0], store.ErrReadOnly) || !errors.Is(puts[1], store.ErrExists) {
		err = errors.Join(err, fmt.Errorf("putting: %v", puts))
	}
	if discardErr := s.Discard(ctx, "a"); !errors.Is(discardErr, store.ErrReadOnly) {
		err = errors.Join(err, fmt.Errorf("discarding: %w", discardErr))
	}
	return err
}
