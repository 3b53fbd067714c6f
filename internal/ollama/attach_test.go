package ollama

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ollamoon/internal/settings"
	"ollamoon/store/open"
)

func (i *install) settingsPath() string {
	i.t.Helper()
	installation, err := i.host().Find("")
	if err != nil {
		i.t.Fatal(err)
	}
	path, err := i.host().settingsFile(installation)
	if err != nil {
		i.t.Fatal(err)
	}
	return path
}

// Detached is as it was: the same file, with its mode, owner and times.
func TestAttachAndDetach(t *testing.T) {
	i := newInstall(t)
	before := i.snapshot()
	original, err := os.Stat(filepath.Join(i.lib, "llama-server"))
	if err != nil {
		t.Fatal(err)
	}
	r := i.attach()
	if !r.Changed || r.Lib != i.lib || r.Before[0] != Detached || r.Account.UID != os.Getuid() || r.Settings != i.settingsPath() {
		t.Errorf("%+v", r)
	}
	pages := filepath.Join(i.root, "home/.cache/ollamoon/pages")
	if r.Store != "file:"+pages {
		t.Errorf("the store is %s", r.Store)
	}
	if info, err := os.Stat(pages); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	i.works("1")
	attached := i.snapshot()
	for name, want := range map[string]bool{"llama-server": true, "llama-server.real": false} {
		is, err := contentOf(filepath.Join(i.lib, name))
		if err != nil || (is == holdsStandIn) != want {
			t.Errorf("%s holds %v, %v", name, is, err)
		}
	}
	if info, err := os.Stat(filepath.Join(i.lib, "ollamoon.yaml")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("the settings: %v, %v", info, err)
	}
	if r := i.attach(); r.Changed || i.snapshot() != attached {
		t.Errorf("attached twice: %+v", r)
	}
	if r := i.detach(); !r.Changed || r.Store != "file:"+pages {
		t.Errorf("%+v", r)
	}
	i.works("1")
	if got := i.snapshot(); got != before {
		t.Errorf("it was\n%s\nand is\n%s", before, got)
	}
	if now, err := os.Stat(filepath.Join(i.lib, "llama-server")); err != nil || !os.SameFile(original, now) {
		t.Errorf("it is another file: %v", err)
	}
	if r := i.detach(); r.Changed || i.snapshot() != before || i.state() != Detached {
		t.Errorf("detached twice: %+v", r)
	}
}

// Settings survive being detached, and what people write beside them stays.
func TestSettings(t *testing.T) {
	i := newInstall(t)
	key := filepath.Join(i.root, "key")
	write(t, key, strings.Repeat("00", 32), 0o600)
	t.Chdir(i.root)
	i.attach("store", "file:pages?budget=2GiB", "role", "decode", "seal-key-file", "key")
	path := i.settingsPath()
	s, err := loadSettings(path)
	if err != nil || s.Store != "file:"+i.root+"/pages?budget=2GiB" || s.Role.String() != "decode" || s.SealKeyFile != key {
		t.Errorf("%+v, %v", s, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.Replace(string(text), "role: decode", "# mine\nrole: decode # for now", 1)+"tenant: a", 0o644)
	i.detach()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("settings of what is detached: %v", err)
	}
	if r := i.attach("store", "none", "tenant", "b"); r.Store != "none" {
		t.Errorf("%+v", r)
	}
	text, err = os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "# mine\nrole: decode # for now\n") || !strings.HasSuffix(string(text), "tenant: b\n") {
		t.Errorf("%s, %v", text, err)
	}
	if s, err := loadSettings(path); err != nil || s.Store != "none" || s.Tenant != "b" || s.SealKeyFile != key {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := os.Stat(detachedSettings(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("settings for another time: %v", err)
	}
}

func TestSettingsThatAreWrong(t *testing.T) {
	i := newInstall(t)
	before := i.snapshot()
	if _, err := Attach(t.Context(), i.options("store", "redis://x")); !errors.Is(err, open.ErrURL) {
		t.Errorf("a store that is none: %v", err)
	}
	if _, err := os.Stat(i.settingsPath()); !errors.Is(err, os.ErrNotExist) || i.snapshot() != before {
		t.Errorf("something was changed: %v", err)
	}
	i.attach()
	write(t, i.settingsPath(), "stroe: none\n", 0o644)
	if _, err := Attach(t.Context(), i.options()); !errors.Is(err, settings.ErrUnknown) {
		t.Errorf("a name that is none: %v", err)
	}
	i.works("1") // unshared
	s, err := Look(t.Context(), i.options())
	if err != nil || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], `"stroe"`) {
		t.Errorf("%+v, %v", s, err)
	}
}

// A file of settings that someone has put beside the stand-in is theirs.
func TestSettingsBeside(t *testing.T) {
	i := newInstall(t)
	beside := filepath.Join(i.lib, settings.FileName)
	write(t, beside, "store: none\n", 0o644)
	before := i.snapshot()
	if r := i.attach(); r.Settings != beside || r.Store != "none" {
		t.Errorf("%+v", r)
	}
	i.detach()
	if got := i.snapshot(); got != before || i.state() != Detached {
		t.Errorf("it was\n%s\nand is\n%s", before, got)
	}
	if r := i.detach(); r.Changed {
		t.Errorf("detached twice: %+v", r)
	}
}

// A link that another user has put into the folder is not written through.
func TestSettingsOfOthers(t *testing.T) {
	i := newInstall(t)
	theirs := filepath.Join(i.root, "home/theirs.yaml")
	write(t, theirs, "store: none\n", 0o644)
	if err := os.Symlink(theirs, filepath.Join(i.lib, settings.FileName)); err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, i.root)
	if _, err := Attach(t.Context(), i.options("store", "memory:")); !errors.Is(err, ErrOthers) || snapshot(t, i.root) != before {
		t.Errorf("attaching: %v", err)
	}
	if s, err := Look(t.Context(), i.options()); err != nil || s.Settings != theirs || s.Store != "none" {
		t.Errorf("%+v, %v", s, err)
	}
	i.detach()
	if data, err := os.ReadFile(theirs); err != nil || string(data) != "store: none\n" {
		t.Errorf("%s, %v", data, err)
	}
	i.attach("store", "memory:")
}

// Updates of Ollama put its own llama-server back: over the stand-in, or with the
// whole folder made anew.
func TestUpdate(t *testing.T) {
	for name, update := range map[string]func(i *install){
		"over it": func(i *install) { i.release("2") },
		"anew": func(i *install) {
			if err := os.RemoveAll(i.lib); err != nil {
				i.t.Fatal(err)
			}
			i.release("2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := newInstall(t)
			i.attach("store", "none")
			update(i)
			i.works("2")
			s, err := Look(t.Context(), i.options())
			if err != nil || s.Attached || s.Folders[0].State != Updated || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "ollamoon attach") {
				t.Errorf("%+v, %v", s, err)
			}
			if r := i.attach(); r.Before[0] != Updated || r.Store != "none" {
				t.Errorf("%+v", r)
			}
			i.works("2")
			if i.state() != Attached {
				t.Errorf("it is %s", i.state())
			}
			// Once more, and given up.
			i.release("3")
			updated := i.snapshot()
			i.detach()
			i.works("3")
			if got := i.snapshot(); !strings.Contains(updated, got[strings.Index(got, "/llama-server"):]) || strings.Contains(got, ".real") {
				t.Errorf("it is\n%s", got)
			}
		})
	}
}

func TestLost(t *testing.T) {
	i := newInstall(t)
	i.attach()
	kept := filepath.Join(i.lib, "llama-server.real")
	if err := os.Remove(kept); err != nil {
		t.Fatal(err)
	}
	before := i.snapshot()
	if _, err := Attach(t.Context(), i.options()); !errors.Is(err, ErrLost) {
		t.Errorf("attaching: %v", err)
	}
	if _, err := Detach(t.Context(), i.options()); !errors.Is(err, ErrLost) || i.snapshot() != before {
		t.Errorf("detaching: %v", err)
	}
	if s := i.state(); s != Lost {
		t.Errorf("it is %s", s)
	}
	i.release("2") // as the message says
	i.attach()
	i.works("2")

	// The other way round, the real one is still there.
	for _, repair := range []func(){func() { i.attach() }, func() { i.detach() }} {
		i.attach()
		if err := os.Remove(filepath.Join(i.lib, "llama-server")); err != nil {
			t.Fatal(err)
		}
		if s := i.state(); s != Missing {
			t.Errorf("it is %s", s)
		}
		repair()
		i.works("2")
	}
}

// Another attach at the same time is refused, and harms nothing.
func TestOneAtATime(t *testing.T) {
	i := newInstall(t)
	release, err := folder{path: i.lib}.lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(t.Context(), i.options()); !errors.Is(err, ErrBusy) {
		t.Errorf("attaching: %v", err)
	}
	if _, err := Detach(t.Context(), i.options()); !errors.Is(err, ErrBusy) {
		t.Errorf("detaching: %v", err)
	}
	release()
	i.attach()
}

// A stand-in of another build is brought up to date while the old one may run, and
// several folders with a llama-server are attached together.
func TestAnotherBuildAndSeveralFolders(t *testing.T) {
	i := newInstall(t)
	write(t, filepath.Join(i.lib, "cuda_v13", "llama-server"), serverText("1"), 0o755)
	before := i.snapshot()
	i.attach()
	other := filepath.Join(i.root, "other")
	data, err := os.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	write(t, other, string(data)+"\n", 0o755)
	o := i.options()
	o.Program = other
	s, err := Look(t.Context(), o)
	if err != nil || !s.Attached || len(s.Folders) != 2 || len(s.Problems) != 2 || !strings.Contains(s.Problems[1], "another build") {
		t.Errorf("%+v, %v", s, err)
	}
	if r, err := Attach(t.Context(), o); err != nil || !r.Changed {
		t.Errorf("%+v, %v", r, err)
	}
	for _, folder := range []string{i.lib, filepath.Join(i.lib, "cuda_v13")} {
		if !equal(other, filepath.Join(folder, "llama-server")) {
			t.Errorf("the stand-in in %s is the old one", folder)
		}
	}
	i.works("1")
	i.detach()
	if got := i.snapshot(); got != before {
		t.Errorf("it was\n%s\nand is\n%s", before, got)
	}
}

// The llama-server may be a link, as packages have it.
func TestLink(t *testing.T) {
	i := newInstall(t)
	path := filepath.Join(i.lib, "llama-server")
	if err := os.Rename(path, filepath.Join(i.root, "usr/local/bin/llama-server")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../bin/llama-server", path); err != nil {
		t.Fatal(err)
	}
	before := i.snapshot()
	i.attach()
	i.works("1")
	i.detach()
	i.works("1")
	if got := i.snapshot(); got != before {
		t.Errorf("it was\n%s\nand is\n%s", before, got)
	}
}

// Where files get no second name, a copy does.
func TestWithoutLinks(t *testing.T) {
	i := newInstall(t)
	before := i.snapshot()
	o := i.options()
	o.before = func(change string) error {
		if strings.HasPrefix(change, "link ") {
			return syscall.EPERM
		}
		return nil
	}
	if _, err := Attach(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	i.works("1")
	i.detach()
	i.works("1")
	if got := i.snapshot(); got != before {
		t.Errorf("it was\n%s\nand is\n%s", before, got)
	}
}

// A stand-in that does not run is not put in place.
func TestProgramThatDoesNotRun(t *testing.T) {
	i := newInstall(t)
	before := i.snapshot()
	o := i.options()
	o.Program = filepath.Join(i.root, "broken")
	write(t, o.Program, "#!/no/such/interpreter\n", 0o755)
	if _, err := Attach(t.Context(), o); !errors.Is(err, ErrProgram) {
		t.Errorf("%v", err)
	}
	if got := i.snapshot(); got != before || i.state() != Detached {
		t.Errorf("it was\n%s\nand is\n%s", before, got)
	}
}
