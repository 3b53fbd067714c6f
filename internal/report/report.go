package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"ollamoon/internal/results"
)

//go:embed page
var files embed.FS

// Render writes the page for f.
func Render(w io.Writer, f *results.File) error {
	v, err := valuesOf(f)
	if err != nil {
		return fmt.Errorf("rendering the report: %w", err)
	}
	page, err := template.New("page.html").Funcs(v.functions()).ParseFS(files, "page/*")
	if err != nil {
		return fmt.Errorf("reading the report's templates: %w", err)
	}
	model, err := newView(f, v)
	if err != nil {
		return fmt.Errorf("rendering the report: %w", err)
	}
	if err := page.Execute(w, model); err != nil {
		return fmt.Errorf("rendering the report: %w", err)
	}
	return nil
}

// functions are what the templates call: each form of a figure by its name, and
// the few that are about words.
func (v values) functions() template.FuncMap {
	all := template.FuncMap{
		"word": v.word,
		"flag": v.flag,
		"noun": v.noun,
		"join": strings.Join,
		"day":  func(t time.Time) string { return t.Format("2 January 2006") },
		"clock": func(t time.Time) string {
			return t.Format("2006-01-02 15:04:05 -07:00")
		},
		"stamp": func(t time.Time) string { return t.Format(time.RFC3339Nano) },
		"atMost": func(n, limit int) int {
			return min(n, limit)
		},
	}
	all["form"] = func(format string, parts ...string) (figure, error) { return v.figure(format, strings.Join(parts, "")) }
	for name := range formats {
		all[name] = func(parts ...string) (figure, error) { return v.figure(name, strings.Join(parts, "")) }
	}
	return all
}
