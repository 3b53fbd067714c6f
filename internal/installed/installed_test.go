package installed

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFolders(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(inner)
	if got := Folders(); len(got) != 0 {
		t.Errorf("found %v outside any project", got)
	}
	if err := os.WriteFile(filepath.Join(root, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	if got := Folders(); len(got) != 1 || got[0] != filepath.Join(want, ".cache") && got[0] != filepath.Join(root, ".cache") {
		t.Errorf("found %v, want .cache of %s", got, root)
	}
}
