package report

import (
	"encoding/json"
	"html"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A shownFigure is a figure as it stands on the page.
type shownFigure struct {
	Expr, Value, Scale, Text, Unit string
}

var (
	dataElement = regexp.MustCompile(`<data data-figure="([^"]*)" value="([^"]*)"(?: data-scale="([^"]*)")?[^>]*>([^<]*)</data>(?:(?:&nbsp;)?<span class="unit">([^<]*)</span>)?`)
	timeElement = regexp.MustCompile(`<time datetime="([^"]*)" data-figure="([^"]*)">[^<]*</time>`)
	tallies     = regexp.MustCompile(`<span data-tally>\d+</span>`)
	shares      = regexp.MustCompile(`style="--share:[^"]*"`)
)

func figuresOf(page string) []shownFigure {
	var all []shownFigure
	for _, m := range dataElement.FindAllStringSubmatch(page, -1) {
		for i := range m {
			m[i] = html.UnescapeString(m[i])
		}
		all = append(all, shownFigure{Expr: m[1], Value: m[2], Scale: m[3], Text: m[4], Unit: m[5]})
	}
	return all
}

// fileValue computes an expression from the file itself, apart from the code
// under test: one operand after the other, from the JSON.
func fileValue(t *testing.T, root any, expr string) any {
	t.Helper()
	lookup := func(place string) any {
		if n, err := strconv.ParseFloat(place, 64); err == nil {
			return n
		}
		at := root
		for name := range strings.SplitSeq(place, ".") {
			switch v := at.(type) {
			case map[string]any:
				at = v[name]
			case []any:
				i, err := strconv.Atoi(name)
				if err != nil || i >= len(v) {
					t.Fatalf("%s is not in the file", place)
				}
				at = v[i]
			default:
				t.Fatalf("%s is not in the file", place)
			}
		}
		return at
	}
	words := strings.Fields(expr)
	if len(words) == 1 {
		return lookup(words[0])
	}
	if flag, ok := lookup(words[0]).(bool); ok {
		for i := 2; i < len(words); i += 2 {
			flag = flag && lookup(words[i]).(bool)
		}
		return flag
	}
	total := lookup(words[0]).(float64)
	for i := 1; i < len(words); i += 2 {
		right := lookup(words[i+1]).(float64)
		switch words[i] {
		case "/":
			total /= right
		case "-":
			total -= right
		default:
			t.Fatalf("operator %s", words[i])
		}
	}
	return total
}

// checkFigure holds a figure on the page against the file.
func checkFigure(t *testing.T, root any, f shownFigure) {
	t.Helper()
	switch want := fileValue(t, root, f.Expr).(type) {
	case string:
		if f.Text != want && (want != "" || f.Text != "unknown") {
			t.Errorf("%s is %q, the page shows %q", f.Expr, want, f.Text)
		}
	case bool:
		if f.Value != strconv.FormatBool(want) || strings.Contains(f.Text, "not ") == want {
			t.Errorf("%s is %t, the page shows %q (%s)", f.Expr, want, f.Text, f.Value)
		}
	case float64:
		if f.Text == "not measured" {
			if f.Value != "" || (want != 0 && !math.IsNaN(want) && !math.IsInf(want, 0)) {
				t.Errorf("%s is %v, the page says that it was not measured", f.Expr, want)
			}
			return
		}
		if got, err := strconv.ParseFloat(f.Value, 64); err != nil || got != want {
			t.Errorf("%s is %v, the page's exact value is %q", f.Expr, want, f.Value)
		}
		got, err := strconv.ParseFloat(strings.ReplaceAll(f.Text, ",", ""), 64)
		scale, scaleErr := strconv.ParseFloat(f.Scale, 64)
		if err != nil || scaleErr != nil {
			t.Errorf("%s is shown as %q with scale %q", f.Expr, f.Text, f.Scale)
			return
		}
		_, fraction, _ := strings.Cut(f.Text, ".")
		half := 0.5000001 * math.Pow10(-len(fraction))
		if math.Abs(got-want/scale) > half {
			t.Errorf("%s is %v, the page shows %s of %s each", f.Expr, want, f.Text, f.Scale)
		}
		checkUnit(t, f, scale)
	default:
		t.Errorf("%s is %v", f.Expr, want)
	}
}

// checkUnit holds a shown unit against the name of the figure and its scale.
func checkUnit(t *testing.T, f shownFigure, scale float64) {
	t.Helper()
	want := ""
	switch {
	case strings.Contains(f.Expr, " / "):
		want = map[float64]string{1: "×", 0.01: "%"}[scale]
	case strings.Contains(f.Expr, "mb_s"):
		want = map[float64]string{1: "MB/s", 1e3: "GB/s"}[scale]
	case strings.Contains(f.Expr, "_ms"):
		want = map[float64]string{1: "ms", 1e3: "s"}[scale]
	case strings.HasSuffix(f.Expr, "seconds"):
		want = "s"
	case strings.HasSuffix(f.Expr, "tokens_s"):
		want = "tokens/s"
	case scale == 0.01:
		want = "%"
	case strings.HasSuffix(f.Expr, "bytes") && f.Unit != "":
		want = map[float64]string{1: "bytes", 1e3: "kB", 1e6: "MB", 1e9: "GB", 1e12: "TB"}[scale]
	case scale != 1:
		want = "no scale"
	}
	if f.Unit != want {
		t.Errorf("%s: unit %q with scale %v, want %q", f.Expr, f.Unit, scale, want)
	}
}

func plain(t *testing.T, f any) any {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	return root
}
