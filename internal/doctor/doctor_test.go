package doctor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/cluster"
	"ollamoon/internal/ollama"
	"ollamoon/internal/remote"
	"ollamoon/internal/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// place makes a file.
func place(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// nobody is a machine without an Ollama, with a llama-server that runs.
func nobody(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	return Options{
		Settings: settings.Settings{Store: "none", Binary: place(t, filepath.Join(dir, "server"), "#!/bin/sh\necho version: 1\n", 0o755)},
		Ollama:   ollama.Options{Host: ollama.Host{Root: dir, Path: dir, OS: "linux"}},
	}
}

// about returns the one finding about a thing.
func about(t *testing.T, findings []Finding, name string) Finding {
	t.Helper()
	var found []Finding
	for _, f := range findings {
		if f.About == name {
			found = append(found, f)
		}
		if f.State == Fail && f.Do == "" && f.About != "worker" && f.About != "store" {
			t.Errorf("%s fails, and nothing is said to do: %s", f.About, f.Found)
		}
	}
	if len(found) != 1 {
		t.Fatalf("of %s there are the findings %+v", name, findings)
	}
	return found[0]
}

// expect checks a finding's state and what it says.
func expect(t *testing.T, o Options, name string, state State, words ...string) {
	t.Helper()
	f := about(t, Look(t.Context(), o), name)
	if f.State != state {
		t.Errorf("%s is %s: %+v", name, f.State, f)
	}
	for _, w := range words {
		if !strings.Contains(f.Found+" "+f.Do, w) {
			t.Errorf("no %q in %+v", w, f)
		}
	}
}

func TestSettings(t *testing.T) {
	o := nobody(t)
	expect(t, o, "settings", OK, "store none, role mixed")
	o.SettingsError = errors.New("line 3 is wrong")
	expect(t, o, "settings", Fail, "line 3 is wrong", "--ollamoon-help")
}

func TestBinary(t *testing.T) {
	o := nobody(t)
	expect(t, o, "llama-server", OK, "version: 1")
	for text, words := range map[string][]string{
		"#!/bin/sh\necho 'llama-server: error while loading shared libraries: libgomp.so.1: cannot open shared object file: No such file' >&2\nexit 127\n": {"apt-get install libgomp1"},
		"#!/bin/sh\necho 'x: error while loading shared libraries: libodd.so.7: cannot open shared object file' >&2\nexit 127\n":                           {"package that has libodd.so.7"},
		"#!/bin/sh\nexit 3\n": {"exit status 3", "by hand"},
	} {
		place(t, o.Settings.Binary, text, 0o755)
		expect(t, o, "llama-server", Fail, words...)
	}
	o.Settings.Binary = "/no/such/file"
	expect(t, o, "llama-server", Fail, "--binary")
}

func TestOllama(t *testing.T) {
	o := nobody(t)
	expect(t, o, "Ollama", OK, "none")
	lib := filepath.Join(o.Ollama.Root, "usr/lib/ollama")
	if err := os.MkdirAll(lib, 0o755); err != nil { //nolint:gosec // as installed
		t.Fatal(err)
	}
	place(t, filepath.Join(lib, "llama-server"), "#!/bin/sh\necho version: 7\n", 0o755)
	o.Settings.Binary = ""
	expect(t, o, "Ollama", OK, "not attached")
	expect(t, o, "llama-server", OK, lib, "version: 7")
	place(t, filepath.Join(lib, "llama-server.real"), "#!/bin/sh\necho version: 6\n", 0o755)
	expect(t, o, "Ollama", Fail, "updated", "ollamoon attach")
}

func TestSealKey(t *testing.T) {
	o := nobody(t)
	path := filepath.Join(t.TempDir(), "key")
	o.Settings.SealKeyFile = path
	expect(t, o, "sealing key", Fail, "/dev/urandom", path)
	place(t, path, "abc\n", 0o600)
	expect(t, o, "sealing key", Fail, "64 hexadecimal digits")
	place(t, path, strings.Repeat("a1", 32)+"\n", 0o644)
	expect(t, o, "sealing key", Warn, "chmod 0400")
	place(t, path, strings.Repeat("a1", 32)+"\n", 0o400)
	expect(t, o, "sealing key", OK)
}

func TestSlotFiles(t *testing.T) {
	o := nobody(t)
	o.Settings.Slots = filepath.Join(t.TempDir(), "slots")
	expect(t, o, "slot files", Fail, "mkdir -m 700 "+o.Settings.Slots)
	if err := os.Mkdir(o.Settings.Slots, 0o700); err != nil {
		t.Fatal(err)
	}
	expect(t, o, "slot files", OK, "free")
	if err := os.Chmod(o.Settings.Slots, 0o755); err != nil { //nolint:gosec // what is wrong
		t.Fatal(err)
	}
	expect(t, o, "slot files", Fail, "chmod 700")
}

func TestFolder(t *testing.T) {
	o := nobody(t)
	expect(t, o, "store", Warn, "none")
	o.Settings.Store = "redis://x"
	expect(t, o, "store", Fail, "names no store")
	o.Settings.Store = "memory:"
	expect(t, o, "store", Warn, "one process's own")
	dir := filepath.Join(t.TempDir(), "a", "b")
	o.Settings.Store = "file:" + dir
	expect(t, o, "store", OK, dir, "is made when")
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a look made a folder: %v", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // what is wrong
		t.Fatal(err)
	}
	expect(t, o, "store", Fail, "chmod 700 "+dir)
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	expect(t, o, "store", OK, dir, "free")
	o.Settings.Store = "file:" + place(t, filepath.Join(t.TempDir(), "x"), "", 0o600)
	expect(t, o, "store", Fail, "is no folder")
}

func TestWorker(t *testing.T) {
	status := http.StatusOK
	body := `{"sharing": true, "store": "none", "role": "mixed", "namespace": "m@1", "engine": {"build": "b1"}, "slots": {"total": 2, "free": 1, "folder": "/tmp"}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ollamoon/status" || r.Header.Get("Authorization") != "Bearer k" {
			status = http.StatusUnauthorized
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	o := nobody(t)
	o.Worker = remote.Server{URL: server.URL, APIKey: "k"}
	expect(t, o, "worker", OK, "namespace m@1")
	expect(t, o, "its slot files", OK, "build b1", "1 of 2 slots")
	body = strings.Replace(body, "true", `false, "reason": "the store is away"`, 1)
	expect(t, o, "worker", Fail, "the store is away")
	body, status = "{}", http.StatusNotFound
	expect(t, o, "worker", Fail, "ollamoon llama-server")
	o.Worker.APIKey = ""
	expect(t, o, "worker", Fail, "--api-key")
	server.Close()
	expect(t, o, "worker", Fail, "start it")
}

// A real Mooncake Store, whole and with each of its parts missing.
func TestMooncake(t *testing.T) {
	programs, err := cluster.Programs(cluster.Version)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Programs: programs, Metadata: cluster.MetadataHTTP})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := nobody(t)
	at := func(master, metadata string) { o.Settings.Store = "mooncake://" + master + "?metadata=" + metadata }
	at(c.Master(), c.Metadata())
	findings := Look(ctx, o)
	for name, words := range map[string]string{
		"master": "speaks the protocol of 0.3.13", "metadata": "answers", "owners": "took 64 KiB and gave it back", "shared memory": "with a mooncake_client of this machine",
	} {
		if f := about(t, findings, name); f.State != OK || !strings.Contains(f.Found, words) {
			t.Errorf("%+v", f)
		}
	}
	at(c.Owner(), "P2PHANDSHAKE") // it speaks, and is no master
	expect(t, o, "master", Fail, "RPC port")
	at(c.Master(), "http://"+c.Master())
	expect(t, o, "metadata", Fail, "--enable_http_metadata_server")
	o.Settings.Store = "mooncake://" + c.Master() + "?tenant=unheard-of&metadata=" + c.Metadata()
	if f := about(t, Look(ctx, o), "owners"); f.State != OK { // a master without tenants ignores them
		t.Errorf("%+v", f)
	}
	at(c.Master(), c.Metadata())
	c.KillOwner()
	if f := about(t, Look(ctx, o), "owners"); f.State != Fail || f.Do == "" {
		t.Errorf("without an owner: %+v", f)
	}
	c.StopMaster()
	expect(t, o, "master", Fail, "start mooncake_master")
}
