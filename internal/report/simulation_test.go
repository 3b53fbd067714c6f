package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"ollamoon/internal/results"
)

// simulation is the file of testdata: four clusters of each policy, at three loads,
// of the demo's shape.
func simulation(t *testing.T) *results.Simulation {
	t.Helper()
	data, err := os.ReadFile("testdata/simulation.json")
	if err != nil {
		t.Fatal(err)
	}
	f, err := results.ParseSimulation(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// simulations are the shapes that the page has to show.
func simulations(t *testing.T) map[string]*results.Simulation {
	t.Helper()
	all := map[string]*results.Simulation{"example": simulation(t)}

	f := simulation(t)
	f.Runs = f.Runs[:1] // one cluster, without a store
	f.Trace.Name = "a-trace-of-a-very-long-name.with-several.parts.of-it.example.jsonl"
	f.EqualMemory, f.Costs.LookupMS, f.Costs.RestoreMBs, f.Costs.SaveMBs, f.Costs.Sources = true, 0, 0, 0, nil
	all["one run, no store, long names"] = f
	return all
}

func renderSimulation(t *testing.T, f *results.Simulation) string {
	t.Helper()
	var page bytes.Buffer
	if err := RenderSimulation(&page, f); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

func TestEveryFigureEqualsTheSimulation(t *testing.T) {
	for name, f := range simulations(t) {
		t.Run(name, func(t *testing.T) {
			if _, err := results.ParseSimulation(must(json.Marshal(f))); err != nil {
				t.Fatalf("the file of this test: %v", err)
			}
			root := plain(t, f)
			for _, figure := range figuresOf(renderSimulation(t, f)) {
				checkFigure(t, root, figure)
			}
		})
	}
}

// Whatever a simulation came to is on the page.
func TestEveryFigureOfTheSimulationIsShown(t *testing.T) {
	f := simulation(t)
	page := renderSimulation(t, f)
	seen := map[string]bool{"schema_version": true, "kind": true}
	for _, figure := range figuresOf(page) {
		for _, word := range strings.Fields(figure.Expr) {
			seen[word] = true
		}
	}
	for _, m := range timeElement.FindAllStringSubmatch(page, -1) {
		seen[m[2]] = true
	}
	var walk func(place string, v any)
	walk = func(place string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				walk(strings.TrimPrefix(place+"."+name, "."), inner)
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprintf("%s.%d", place, i), inner)
			}
		default:
			if !seen[place] && v != 0.0 {
				t.Errorf("%s is not on the page", place)
			}
		}
	}
	walk("", plain(t, f))
}

func TestSimulationHasItsParts(t *testing.T) {
	page := renderSimulation(t, simulation(t))
	for _, want := range []string{
		"a trace in simulated clusters", "of all that can be hit", "to the first token, p90", "Beside other routers",
		"Pages that were not computed", "A store that never forgets", "Time to the first token, p90, by load",
		"by workers", "Imbalance", "What a smaller store hits", "Every run", "What the model leaves out", "Costs", "Reproduce it",
		"Round robin", "Least outstanding", "Cache affinity", "Shared store",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if outside := regexp.MustCompile(`(?i)https?:|//[a-z]|<script|<link[^>]*href="[^d]|src=|url\(|@import`).FindAllString(page, -1); outside != nil {
		t.Errorf("the page refers to %q", outside)
	}
}

func TestNamesOfSimulationsAreEscaped(t *testing.T) {
	f := simulation(t)
	const hostile = `"><script>alert(1)</script>`
	f.Trace.Name, f.Command, f.Costs.Name = hostile, hostile, hostile
	page := renderSimulation(t, f)
	if strings.Contains(page, "<script") || strings.Count(page, html.EscapeString(hostile)) < 3 {
		t.Error("a name of the file is not shown as it is")
	}
}

// theDemos are counts that only its page has to reach.
var theDemos = regexp.MustCompile(`^only \d+ pieces of text|^\d+ charts and diagrams`)

// The page as a browser shows it, at the widths of a phone, a tablet and a desk.
func TestSimulationInChromium(t *testing.T) {
	b := startBrowser(t)
	for name, f := range simulations(t) {
		path := t.TempDir() + "/index.html"
		if err := os.WriteFile(path, []byte(renderSimulation(t, f)), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, width := range []int64{360, 768, 1440} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s, %d px, %s", name, width, scheme), func(t *testing.T) {
					b.open(t, "file://"+path, width, scheme)
					found := b.check(t)
					for _, p := range found.Problems {
						if !theDemos.MatchString(p) {
							t.Error(p)
						}
					}
					if want := len(figuresOf(renderSimulation(t, f))); len(found.Figures) != want {
						t.Errorf("the browser has %d figures, the page %d", len(found.Figures), want)
					}
					if said, _ := b.heard(); len(said) > 0 {
						t.Errorf("the browser said %q", said)
					}
				})
			}
		}
	}
}
