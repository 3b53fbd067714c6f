package standin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"ollamoon/internal/engine"
	"ollamoon/internal/settings"
	"ollamoon/slotfile"
)

func TestConsole(t *testing.T) {
	const private, public = "unix:///tmp/x/engine.sock", "http://127.0.0.1:1"
	text := "one\ntwo at unix:///tmp/x/engine.sock\nunix:///tmp/y and unix"
	want := "one\ntwo at http://127.0.0.1:1\nunix:///tmp/y and unix"
	for _, size := range []int{1, 2, 7, len(text)} {
		var got bytes.Buffer
		w := &engineWriter{console: &console{to: &got}, private: []byte(private), public: []byte(public)}
		for chunk := range slices.Chunk([]byte(text), size) {
			if n, err := w.Write(chunk); n != len(chunk) || err != nil {
				t.Fatal(n, err)
			}
		}
		w.flush()
		if got.String() != want {
			t.Errorf("in chunks of %d: %q", size, got.String())
		}
	}
}

// Lines of ours never break one of the engine's.
func TestConsoleKeepsLinesWhole(t *testing.T) {
	var got bytes.Buffer
	c := &console{to: &got}
	w := &engineWriter{console: c, private: []byte("private")}
	log := c.logger(settings.Settings{}, slog.LevelInfo)
	write := func(s string) {
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	log.Info("a")
	write("loading ..")
	log.Info("b")
	log.Debug("too quiet")
	write("..")
	log.Info("c")
	write(" done\nnext")
	log.Info("d\nd")
	w.flush()
	var lines []string
	for line := range strings.Lines(got.String()) {
		if before, after, ok := strings.Cut(line, " level="); ok {
			line = before[:len(logPrefix)] + after
		}
		lines = append(lines, line)
	}
	want := []string{
		"ollamoon: INFO msg=a\n", "loading .... done\n", "ollamoon: INFO msg=b\n", "ollamoon: INFO msg=c\n", "next\n", "ollamoon: INFO msg=\"d\\nd\"\n",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}

func TestGate(t *testing.T) {
	say := func(word string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, word) })
	}
	g := &gate{listener: engine.Listener{Prefix: "/p", APIKeys: []string{"k"}}, direct: say("direct"), own: map[string]http.Handler{statusPath: say("status"), metricsPath: say("metrics")}}
	check := func(method, path, key, want string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if got := w.Body.String(); got != want {
			t.Errorf("%s %s: %s", method, path, got)
		}
	}
	for range 2 {
		check("GET", "/p/ollamoon/status", "k", "status")
		check("GET", "/p/ollamoon/status", "", unauthorizedAnswer)
		check("GET", "/p/ollamoon/metrics", "k", "metrics")
		check("GET", "/p/ollamoon/metrics", "", unauthorizedAnswer)
		if g.open.Load() != nil {
			break
		}
		check("GET", "/p/health", "", loadingAnswer)
		check("POST", "/p/completion", "k", loadingAnswer)
		check("POST", "/p/slots/0?action=save", "k", loadingAnswer)
		check("OPTIONS", "/p/completion", "", "direct")
		check("GET", "/", "", "direct")
		g.serve(say("open"))
	}
	check("GET", "/p/health", "", "open")
	check("GET", "/p/slots", "", "open")
	check("GET", "/p/slots/0", "", "open")
	check("POST", "/p/slots/0/x", "k", "open")
	check("POST", "/slots/0?action=save", "k", "open") // not below the prefix: the engine does not know it
	check("POST", "/p/slots/0?action=save", "k", noActionsAnswer)
	check("POST", "/p/slots/0?action=save", "", unauthorizedAnswer)
	g.actions = true
	check("POST", "/p/slots/0?action=save", "k", "open")
}

func TestFindBinary(t *testing.T) {
	folder := t.TempDir()
	place := func(path string) string {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		return path
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(folder, "a", "llama-server")
	onPath := place("b/llama-server")
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	path := filepath.Dir(link) + ":" + filepath.Dir(onPath)
	check := func(named, want string) {
		t.Helper()
		got, err := FindBinary(named, link, path)
		if got != want || (want == "") != errors.Is(err, ErrNoBinary) {
			t.Errorf("%q: %s, %v", named, got, err)
		}
	}
	check("", onPath) // past the link to this program
	check(link, "")
	check("/no/such/file", "")
	beside := place("a/llama-server.real")
	check("", beside)
	named := place("c/other")
	check(named, named)
	// The name that this program was started under may be the real one's again.
	if err := errors.Join(os.Remove(beside), os.Remove(link), os.Rename(onPath, link)); err != nil {
		t.Fatal(err)
	}
	check("", link)
	if err := errors.Join(os.Rename(link, onPath), os.Symlink(self, link)); err != nil {
		t.Fatal(err)
	}
	if _, err := FindBinary("", self, filepath.Dir(link)); !errors.Is(err, ErrNoBinary) {
		t.Errorf("%v", err)
	}
}

func TestSweepLeavesTheLiving(t *testing.T) {
	over := exec.Command("/bin/true") //nolint:noctx // ends at once
	if err := over.Run(); err != nil {
		t.Fatal(err)
	}
	dead, alive := over.Process.Pid, os.Getppid()
	folder := t.TempDir()
	for _, name := range []string{
		fmt.Sprintf("ollamoon-%d-1", dead), fmt.Sprintf("ollamoon-%d-calibration-saved", dead), fmt.Sprintf("ollamoon-%d-2", alive), fmt.Sprintf("ollamoon-%d-3", os.Getpid()),
		fmt.Sprintf("ollamoon-%d-x", dead), "mine",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := fmt.Sprintf("ollamoon-%d-run", dead)
	if err := os.Mkdir(filepath.Join(folder, run), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := locked(filepath.Join(folder, run)) // as by a process elsewhere
	if err != nil {
		t.Fatal(err)
	}
	names := func() (names []string) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	want := []string{
		"mine", fmt.Sprintf("ollamoon-%d-2", alive), fmt.Sprintf("ollamoon-%d-3", os.Getpid()), run, fmt.Sprintf("ollamoon-%d-x", dead),
	}
	slices.Sort(want)
	sweep(folder)
	if got := names(); !slices.Equal(got, want) {
		t.Errorf("left are %v, not %v", got, want)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	sweep(folder)
	if slices.Contains(names(), run) {
		t.Error("the folder of a dead process is left")
	}
}

func TestFoldersArePrivate(t *testing.T) {
	open := t.TempDir()
	if err := os.Chmod(open, 0o755); err != nil { //nolint:gosec // what is to be refused
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{open, link} {
		if err := private(path); !errors.Is(err, errFolder) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := openFolders(path, false); !errors.Is(err, errFolder) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestWeights(t *testing.T) {
	folder := t.TempDir()
	const hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := weightsCache{folder: t.TempDir()}
	ctx := t.Context()
	path := write("x.gguf", "hello")
	for range 2 {
		if w, err := c.model(ctx, path); err != nil || w.Digest != hello {
			t.Errorf("%+v, %v", w, err)
		}
	}
	entries, err := os.ReadDir(c.folder)
	if err != nil || len(entries) != 1 {
		t.Fatalf("remembered: %v, %v", entries, err)
	}
	// What is remembered is believed, and only of the same file.
	remember(filepath.Join(c.folder, entries[0].Name()), weightsFile{Digest: strings.Repeat("0", 64)})
	if w, err := c.file(ctx, path); err != nil || w.Digest != strings.Repeat("0", 64) {
		t.Errorf("%+v, %v", w, err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if w, err := c.file(ctx, path); err != nil || w.Digest != hello {
		t.Errorf("%+v, %v", w, err)
	}
	if w, err := (weightsCache{}).file(ctx, write("sha256-"+hello, "hello")); err != nil || w.Digest != hello {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := c.file(ctx, write("sha256-"+strings.Repeat("0", 64), "hello")); !errors.Is(err, errBlobName) {
		t.Errorf("a blob of another name: %v", err)
	}
	shard := write("m-00001-of-00002.gguf", "hello")
	if _, err := c.model(ctx, shard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without its second file: %v", err)
	}
	write("m-00002-of-00002.gguf", "hello")
	if w, err := c.model(ctx, shard); err != nil || w.Digest != hello+"+"+hello {
		t.Errorf("%+v, %v", w, err)
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := c.file(done, write("y.gguf", "y")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestLongRoPEAcrossReads(t *testing.T) {
	for _, at := range []int{0, 1<<20 - 3, 1<<20 + 5, 3 << 20} {
		content := strings.Repeat("x", at) + "rope_factors_long.weight"
		w, err := readWeights(t.Context(), iotest.DataErrReader(strings.NewReader(content)))
		if err != nil || !w.LongRoPE {
			t.Errorf("at %d: %+v, %v", at, w, err)
		}
		plain, err := readWeights(t.Context(), strings.NewReader(strings.Replace(content, "long", "lone", 1)))
		if err != nil || plain.LongRoPE || plain.Digest == w.Digest {
			t.Errorf("at %d: %+v, %v", at, plain, err)
		}
	}
}

// Each thing that changes pages changes the namespace, and nothing else does.
func TestNamespaces(t *testing.T) {
	vector := filepath.Join(t.TempDir(), "v.gguf")
	if err := os.WriteFile(vector, []byte("v"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := func(args ...string) identity {
		i := identity{
			args: engine.Arguments{Args: append([]string{"-m", "x"}, args...)}, weights: weightsFile{Digest: strings.Repeat("a", 64)},
			shape: slotfile.Shape{Sections: []slotfile.SectionShape{{Streams: 1, Keys: []slotfile.Rows{{Type: 1, Bytes: 8}}}}},
			seal:  sealName(nil), binary: "/bin/true",
		}
		i.props.Settings.ContextTokens = 4096
		return i
	}
	of := func(i identity) string {
		t.Helper()
		n, err := i.namespace(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n.Model()
	}
	change := func(f func(*identity)) identity {
		i := base()
		f(&i)
		return i
	}
	plain := of(base())
	seen := map[string]string{plain: "the base"}
	for name, i := range map[string]identity{
		"key type":        base("-ctk", "q8_0"),
		"value type":      base("--cache_type_v", "q8_0"),
		"override":        base("--override-kv", "a=int:1"),
		"rope":            base("--rope-freq-base", "1e6"),
		"control vector":  base("--control-vector", vector),
		"its scale":       base("--control-vector-scaled", vector+":0.5"),
		"its layers":      base("--control-vector", vector, "--control-vector-layer-range", "1", "2"),
		"rope by env":     change(func(i *identity) { i.args.Env = []string{"LLAMA_ARG_ROPE_SCALE=2"} }),
		"weights":         change(func(i *identity) { i.weights.Digest = strings.Repeat("b", 64) }),
		"context":         change(func(i *identity) { i.weights.LongRoPE = true }),
		"adapter":         change(func(i *identity) { i.loras = []engine.LoRA{{Path: vector, Scale: 1}} }),
		"adapter's scale": change(func(i *identity) { i.loras = []engine.LoRA{{Path: vector, Scale: 0.5}} }),
		"geometry":        change(func(i *identity) { i.shape.Sections[0].Transposed = true }),
		"tenant":          change(func(i *identity) { i.settings.Tenant = "t" }),
		"page size":       change(func(i *identity) { i.settings.PageTokens = 64 }),
		"seal":            change(func(i *identity) { i.seal = sealName(make([]byte, 32)) }),
		"seal's key":      change(func(i *identity) { i.seal = sealName(bytes.Repeat([]byte{1}, 32)) }),
		"exact":           change(func(i *identity) { i.settings.Exact = true }),
		"exact flash attention": change(func(i *identity) {
			i.settings.Exact = true
			i.args = i.args.With("-fa", "off")
		}),
		"exact build": change(func(i *identity) {
			i.settings.Exact = true
			i.props.BuildInfo = "other"
		}),
	} {
		got := of(i)
		if other, ok := seen[got]; ok {
			t.Errorf("%s has the namespace of %s", name, other)
		}
		seen[got] = name
	}
	for name, i := range map[string]identity{
		"threads":          base("-t", "3"),
		"flash attention":  base("-fa", "off"),
		"context":          change(func(i *identity) { i.props.Settings.ContextTokens = 1 }),
		"adapter switched": change(func(i *identity) { i.loras = []engine.LoRA{{Path: vector}} }),
		"type in words":    base("-ctk", "f16"),
		"alias":            change(func(i *identity) { i.props.ModelAlias = "x" }),
	} {
		if got := of(i); got != plain {
			t.Errorf("%s changes the namespace", name)
		}
	}
	if _, err := change(func(i *identity) { i.loras = []engine.LoRA{{Path: "/no/such/file", Scale: 1}} }).namespace(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an adapter that cannot be read: %v", err)
	}
}

func TestSealNameKeepsTheKey(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	if name := sealName(key); strings.Contains(name, "0707") || !reflect.DeepEqual(name, sealName(bytes.Clone(key))) {
		t.Error(name)
	}
}
