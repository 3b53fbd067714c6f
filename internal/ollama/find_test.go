package ollama

import (
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

func TestFind(t *testing.T) {
	i := newInstall(t)
	bin := filepath.Join(i.root, "usr/local/bin")
	program := filepath.Join(bin, "ollama")
	link := filepath.Join(i.root, "home/bin")
	if err := os.MkdirAll(link, 0o755); err != nil { //nolint:gosec // as installed
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(link, "ollama")); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(i.root, "nowhere")
	archive := filepath.Join(i.root, "home/ollama")
	write(t, filepath.Join(archive, "bin/ollama"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(archive, "lib/ollama/llama-server"), serverText("1"), 0o755)
	archived := Installation{Lib: filepath.Join(archive, "lib/ollama"), Folders: []string{filepath.Join(archive, "lib/ollama")}, Program: filepath.Join(archive, "bin/ollama")}
	packaged := Installation{Lib: i.lib, Folders: []string{i.lib}, Program: program}
	unknown := Installation{Lib: i.lib, Folders: []string{i.lib}}
	for name, c := range map[string]struct {
		path, lib string
		want      Installation
	}{
		"on PATH":           {bin, "", packaged},
		"a link on PATH":    {link, "", packaged},
		"a package's place": {nowhere, "", unknown},
		"named":             {nowhere, i.lib, packaged},
		"an archive":        {nowhere, archive, archived},
		"an archive's lib":  {nowhere, archive + "/lib/ollama/", archived},
		"an archive's bin":  {nowhere, archive + "/bin", archived},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Host{Root: i.root, Path: c.path, OS: "linux"}.Find(c.lib)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	several := Host{Root: i.root, Path: archive + "/bin", OS: "linux"}
	if _, err := several.Find(""); !errors.Is(err, ErrSeveral) || !strings.Contains(err.Error(), i.lib) || !strings.Contains(err.Error(), archived.Lib) {
		t.Errorf("several: %v", err)
	}
	if _, err := i.host().Find(bin + "/.."); err != nil {
		t.Errorf("a prefix: %v", err)
	}
	if _, err := i.host().Find(filepath.Join(i.root, "etc")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if err := os.RemoveAll(i.lib); err != nil {
		t.Fatal(err)
	}
	if _, err := i.host().Find(""); !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "update Ollama") {
		t.Errorf("an Ollama without one: %v", err)
	}
	if _, err := (Host{Root: i.root, Path: nowhere, OS: "linux"}).Find(""); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "--lib") {
		t.Errorf("no Ollama: %v", err)
	}
}

// The app of macOS is left alone; what Homebrew's formula puts in place is not.
func TestMacOS(t *testing.T) {
	i := newInstall(t)
	app := filepath.Join(i.root, "Applications/Ollama.app/Contents/Resources")
	for _, name := range []string{"ollama", "llama-server"} {
		write(t, filepath.Join(app, name), serverText("1"), 0o755)
	}
	if err := os.RemoveAll(i.lib); err != nil {
		t.Fatal(err)
	}
	mac := Host{Root: i.root, Path: filepath.Join(i.root, "nowhere"), OS: "darwin"}
	before := snapshot(t, app)
	for _, lib := range []string{"", app} {
		o := i.options()
		o.Host, o.Lib = mac, lib
		if _, err := Attach(t.Context(), o); !errors.Is(err, ErrSigned) || !strings.Contains(err.Error(), "Homebrew") {
			t.Errorf("%q: %v", lib, err)
		}
	}
	if snapshot(t, app) != before {
		t.Error("the app was changed")
	}
	cellar := filepath.Join(i.root, "opt/homebrew/Cellar/ollama/1/bin")
	for _, name := range []string{"ollama", "llama-server"} {
		write(t, filepath.Join(cellar, name), serverText("1"), 0o755)
	}
	if got, err := mac.Find(cellar); err != nil || got.Lib != cellar {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestUnit(t *testing.T) {
	i := newInstall(t)
	write(t, filepath.Join(i.root, "usr/lib/systemd/system/ollama.service"), "[Service]\nUser=other\n", 0o644)
	write(t, filepath.Join(i.root, "etc/systemd/system/ollama.service"), `[Unit]
User=not this
[Service]
# User=nor this
ExecStart=-/usr/local/bin/ollama serve
User=ollama
Environment="PATH=/a b:/c" HOME=/var/lib/ollama
Environment='X=1' \
  Y=2
ProtectSystem=full
`, 0o644)
	write(t, filepath.Join(i.root, "usr/lib/systemd/system/ollama.service.d/10.conf"), "[Service]\nUser=hidden\n", 0o644)
	write(t, filepath.Join(i.root, "etc/systemd/system/ollama.service.d/10.conf"), "[Service]\nProtectHome=yes\nReadWritePaths=/usr/share/ollama -/home/x\n", 0o644)
	unit, ok := i.host().unit()
	want := Unit{
		Path: filepath.Join(i.root, "etc/systemd/system/ollama.service"), User: "ollama", ExecStart: "-/usr/local/bin/ollama serve",
		Environment:   map[string]string{"PATH": "/a b:/c", "HOME": "/var/lib/ollama", "X": "1", "Y": "2"},
		ProtectSystem: "full", ProtectHome: "yes", ReadWritePaths: []string{"/usr/share/ollama", "-/home/x"},
	}
	if !ok || !reflect.DeepEqual(unit, want) || unit.Program() != "/usr/local/bin/ollama" {
		t.Errorf("%+v", unit)
	}
	for path, why := range map[string]string{
		"/usr/share/ollama/.cache": "", "/usr/share/ollamas": "ProtectSystem=full", "/etc/x": "ProtectSystem=full",
		"/var/lib/ollama": "", "/home/y": "ProtectHome=yes", "/home/x/.cache": "", "/homes": "",
	} {
		if got := unit.keepsOut(path); got != why {
			t.Errorf("%s: %q, not %q", path, got, why)
		}
	}
	if got := (Unit{ProtectSystem: "strict"}).keepsOut("/var/cache"); got != "ProtectSystem=strict" {
		t.Errorf("strict: %q", got)
	}
}

// The store is made for the service's user, in the service's home.
func TestService(t *testing.T) {
	i := newInstall(t)
	home := filepath.Join(i.root, "var/lib/ollama")
	name := "nobody"
	if os.Getuid() != 0 { // then only this user's files can be made
		me, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		name = me.Username
	}
	service, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(home, ".bashrc"), "", 0o644)
	unit := filepath.Join(i.root, "etc/systemd/system/ollama.service")
	text := "[Service]\nExecStart=/usr/local/bin/ollama serve\nUser=" + name + "\nEnvironment=HOME=" + home + "\n"
	write(t, unit, text, 0o644)
	if err := os.MkdirAll(filepath.Join(i.root, "run/systemd/system"), 0o755); err != nil { //nolint:gosec // as the system has it
		t.Fatal(err)
	}
	r := i.attach()
	pages := filepath.Join(home, ".cache/ollamoon/pages")
	if r.Account.Name != name || r.Store != "file:"+pages || r.Restart != "systemctl restart ollama" || len(r.Notes) != 0 {
		t.Errorf("%+v", r)
	}
	for path := pages; path != home; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; name == "nobody" && service.Uid != "0" && uid == 0 {
			t.Errorf("%s belongs to root", path)
		}
	}
	s, err := Look(t.Context(), i.options())
	if err != nil || s.User != name || len(s.Problems) != 0 || !s.Attached || s.Version != "0.99.1" || s.Folders[0].Real != "1 --version" || s.Folders[0].StandIn == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := os.Chmod(pages, 0o755); err != nil { //nolint:gosec // what is wrong
		t.Fatal(err)
	}
	if s, err := Look(t.Context(), i.options()); err != nil || len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "chmod 700") {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Attach(t.Context(), i.options()); !errors.Is(err, ErrStore) {
		t.Errorf("a store that is open to others: %v", err)
	}
	if err := os.Chmod(pages, 0o700); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	// Without the service it is known still for whom the store was made.
	if err := os.Remove(unit); err != nil {
		t.Fatal(err)
	}
	if r := i.attach(); r.Changed || r.Account.Name != name || r.Account.Why != "owner of the store" {
		t.Errorf("%+v", r)
	}
	i.detach()
	write(t, unit, text+"ProtectSystem=strict\n", 0o644)
	if _, err := Attach(t.Context(), i.options()); !errors.Is(err, ErrStore) || !strings.Contains(err.Error(), "ReadWritePaths="+pages) {
		t.Errorf("a store that the service cannot write to: %v", err)
	}
	write(t, unit, text+"DynamicUser=yes\n", 0o644)
	if _, err := Attach(t.Context(), i.options()); !errors.Is(err, ErrAccount) || !strings.Contains(err.Error(), "--user") {
		t.Errorf("a user of the moment: %v", err)
	}
}
