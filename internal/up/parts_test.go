package up

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/supervise"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f, err := openFolder()
	if err != nil {
		t.Fatal(err)
	}
	path, err := f.secret("seal.key")
	if err != nil {
		t.Fatal(err)
	}
	if mode(t, f.path) != 0o700 || mode(t, path) != 0o600 {
		t.Errorf("modes %o of the folder, %o of a secret", mode(t, f.path), mode(t, path))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := hex.DecodeString(strings.TrimSpace(string(text))); err != nil || len(key) != 32 || bytes.Equal(key, make([]byte, 32)) {
		t.Errorf("a secret is %q", text)
	}
	if other, err := f.secret("other"); err != nil {
		t.Error(err)
	} else if again, _ := os.ReadFile(other); bytes.Equal(again, text) {
		t.Error("two secrets are the same")
	}
	if err := f.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.path); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// What a killed run has left is removed by the next; what one uses is not.
func TestFoldersOfOthers(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	running, err := openFolder()
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(parent, folderPrefix+"1")
	for _, path := range []string{left, filepath.Join(parent, "else")} {
		if err := os.MkdirAll(filepath.Join(path, "logs"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	f, err := openFolder()
	if err != nil {
		t.Fatal(err)
	}
	for path, there := range map[string]bool{left: false, running.path: true, f.path: true, filepath.Join(parent, "else"): true} {
		if _, err := os.Stat(path); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, each := range []folder{running, f} {
		if err := each.remove(); err != nil {
			t.Error(err)
		}
	}
}

// Output goes to a file, and is shown in whole lines; a second start goes on in
// the same file.
func TestLogs(t *testing.T) {
	var shown bytes.Buffer
	l := logs{folder: t.TempDir(), shown: &console{to: &shown}}
	defer l.close()
	for range 2 {
		w, err := l.of("decode-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"a", "b\nc\n\nd", "\n", strings.Repeat("x", maxLine+1), "\n"} {
			if _, err := io.WriteString(w, part); err != nil {
				t.Fatal(err)
			}
		}
	}
	once := "decode-1 | ab\ndecode-1 | c\ndecode-1 | \ndecode-1 | d\ndecode-1 | " + strings.Repeat("x", maxLine+1) + "\ndecode-1 | \n"
	if shown.String() != once+once {
		t.Errorf("%.200q", shown.String())
	}
	file, err := os.ReadFile(filepath.Join(l.folder, "decode-1.log"))
	if want := "ab\nc\n\nd\n" + strings.Repeat("x", maxLine+1) + "\n"; err != nil || string(file) != want+want {
		t.Errorf("%.200q, %v", file, err)
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("\n"); got != "" {
		t.Errorf("%q", got)
	}
	if got := lastLines("1\n2\n3\n4\n5\n6\n"); got != "; its last output:\n  2\n  3\n  4\n  5\n  6" {
		t.Errorf("%q", got)
	}
}

// A child that ends before it answers is an error with its output, and one that
// says so when something else has its port.
func TestStartFails(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	taken := httptest.NewServer(http.NotFoundHandler())
	child := Child{Name: "decode-1", Address: taken.Listener.Addr().String(), Args: []string{"-c", "echo bad model >&2; exit 7"}}
	_, err := run(t.Context(), "/bin/sh", child, io.Discard, client)
	if !errors.Is(err, ErrPort) || !errors.Is(err, supervise.ErrExited) {
		t.Errorf("with a taken port: %v", err)
	}
	taken.Close()
	_, err = run(t.Context(), "/bin/sh", child, io.Discard, client)
	if errors.Is(err, ErrPort) || !errors.Is(err, supervise.ErrExited) || !strings.Contains(err.Error(), "bad model") {
		t.Errorf("with a free port: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	child.Args = []string{"-c", lasting}
	if _, err := run(ctx, "/bin/sh", child, io.Discard, client); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that never answers: %v", err)
	}
}

// What cannot be is told before anything starts, and leaves nothing behind.
func TestRunRefuses(t *testing.T) {
	parent := t.TempDir()
	t.Setenv("TMPDIR", parent)
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	never := func(context.Context, Running) error {
		t.Error("it runs")
		return nil
	}
	port := taken.Listener.Addr().(*net.TCPAddr).Port
	err := Run(t.Context(), t.Context(), options(t, func(o *Options) { o.Port = port }), io.Discard, never)
	if !errors.Is(err, ErrPort) || !strings.Contains(err.Error(), "--port 0 a free one") {
		t.Errorf("a taken port: %v", err)
	}
	if err := Run(t.Context(), t.Context(), options(t, func(o *Options) { o.Decode = 0 }), io.Discard, never); !errors.Is(err, ErrOptions) {
		t.Errorf("no decode worker: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(parent, folderPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
