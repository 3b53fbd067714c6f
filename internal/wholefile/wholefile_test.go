package wholefile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for i, to := range []string{path, path, link} {
		want := string(rune('0' + i))
		if err := errors.Join(Check(to), Write(to, []byte(want))); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("write %d: %q, %v", i, got, err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link has been replaced: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestNothingButFilesIsReplaced(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, os.DevNull} {
		if err := Write(path, []byte("x")); !errors.Is(err, ErrTarget) {
			t.Errorf("writing %s: %v", path, err)
		}
		if err := Check(path); !errors.Is(err, ErrTarget) {
			t.Errorf("checking %s: %v", path, err)
		}
	}
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s is no longer what it was", os.DevNull)
	}
	nowhere := filepath.Join(dir, "none", "a")
	if Check(nowhere) == nil || Write(nowhere, nil) == nil {
		t.Error("a folder that is not there")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
