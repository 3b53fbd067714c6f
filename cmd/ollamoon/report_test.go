package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const exampleResults = "../../internal/report/testdata/example.json"

func TestReport(t *testing.T) {
	data, err := os.ReadFile(exampleResults)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "bench-results.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for out, args := range map[string][]string{
		filepath.Join(dir, "index.html"): {"report", file},
		filepath.Join(dir, "other.html"): {"report", file, "--out", filepath.Join(dir, "other.html")},
	} {
		printed, err := run(t, "", args...)
		if err != nil || printed != out+"\n" {
			t.Errorf("%v prints %q, %v; want the page's place %s", args, printed, err, out)
		}
		page, err := os.ReadFile(out) //nolint:gosec // of this test
		if err != nil || !strings.HasPrefix(string(page), "<!doctype html>") || !strings.HasSuffix(string(page), "</html>\n") {
			t.Errorf("%v wrote %d bytes, %v", args, len(page), err)
		}
	}
}

func TestReportRejects(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.json")
	if err := os.WriteFile(bad, []byte(`{"schema_version": 2, "speed": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "index.html")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"report"}, []string{"name one results FILE"}},
		{[]string{"report", filepath.Join(dir, "none.json")}, []string{"reading results", "none.json"}},
		{[]string{"report", bad}, []string{bad, "at '/schema_version': value must be 1", "additional properties 'speed'", "missing properties", "'transfer'"}},
		{[]string{"report", exampleResults, "--out", filepath.Join(dir, "no", "page.html")}, []string{"writing the report", "no such file"}},
		{[]string{"report", exampleResults, "--out", dir}, []string{"a folder"}},
		{[]string{"report", exampleResults, "--out", os.DevNull}, []string{"not a file"}},
		{[]string{"report", exampleResults, "--out", exampleResults}, []string{"take the place of the results"}},
		{[]string{"keyz"}, []string{`unknown command "keyz"`}},
		{[]string{"bench", "foo"}, []string{`unknown command "foo"`}},
		{[]string{"bench", "store", "--out", dir}, []string{"the results file", "a folder"}},
	} {
		_, err := run(t, "", c.args...)
		if err == nil {
			t.Errorf("%v succeeds", c.args)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v; want %q in it", c.args, err, want)
			}
		}
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("a page was written from a bad file")
	}
}
