package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The documents name tests that are there.
func TestDocumentsNameTests(t *testing.T) {
	const root = "../.."
	known := map[string]bool{}
	defined := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path) //nolint:gosec // this project's
		for _, found := range defined.FindAllSubmatch(source, -1) {
			known[string(found[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob(root + "/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, path := range append(documents, root+"/README.md", root+"/ARCHITECTURE.md") {
		text, err := os.ReadFile(path) //nolint:gosec // this project's
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile("`(Test[A-Z]\\w+)").FindAllSubmatch(text, -1) {
			named++
			if !known[string(name[1])] {
				t.Errorf("%s names %s, which is no test", path, name[1])
			}
		}
	}
	if named < 60 {
		t.Errorf("only %d tests are named", named)
	}
}
