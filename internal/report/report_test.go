package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ollamoon/internal/results"
)

// example is the file of testdata: made-up figures of the demo's shape, of
// which two miss a goal.
func example(t *testing.T) *results.File {
	t.Helper()
	data, err := os.ReadFile("testdata/example.json")
	if err != nil {
		t.Fatal(err)
	}
	f, err := results.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func setPages(s *results.Scenario, pages, hits int) {
	s.Pages, s.PagesHit, s.Published, s.BPublished = pages, hits, pages, pages-hits
	s.Tokens, s.TokensSkipped = pages*s.Layout.PageTokens, hits*s.Layout.PageTokens
	s.PageOutcomes = slices.Concat(slices.Repeat([]string{"hit"}, hits), slices.Repeat([]string{"computed"}, pages-hits))
}

// shapes are runs that the page has to show well besides the demo's.
func shapes(t *testing.T) map[string]*results.File {
	t.Helper()
	all := map[string]*results.File{"example": example(t)}

	f := example(t)
	setPages(&f.Realistic, 8, 0)
	f.Realistic.Verified, f.Realistic.VerifiedBytes = false, 0
	f.Transfer.SharedMemory = results.Measurement{}
	tcp := &f.Transfer.TCP
	tcp.ReloadBytes, tcp.ReloadMS, tcp.ReloadMBs, tcp.Iterations, tcp.LoopbackBytes = 0, results.Spread{}, 0, 0, 0
	all["no hit, nothing verified, no shared memory"] = f

	f = example(t)
	setPages(&f.Realistic, 64, 63)
	f.Transfer.TCP.ReloadMS = results.Spread{Min: 1210.4, P50: 1280.77, Mean: 1290.1, Max: 2210}
	f.Transfer.TCP.ReloadMBs, f.Transfer.TCP.PublishMBs, f.Transfer.TCP.HeldBytes = 722.1, 612.123, 90_000_000
	f.Host.Name = "a-very-long-host-name.with-several.parts.of-a-domain.example.internal"
	f.Host.CPU, f.Host.Kernel = "", ""
	f.Store.Metadata = "P2PHANDSHAKE"
	f.Transfer.SharedMemory.LoopbackBytes = f.Transfer.TCP.LoopbackBytes // it fell back to TCP
	f.Limit.MemcpyMBs = 40_000                                           // a bar with a break
	f.Command = "bash demo/run_demo.sh --metadata P2PHANDSHAKE --segment-bytes 8589934592 --pages 64 --iterations 200"
	all["64 pages, slow, long names"] = f

	f = example(t)
	setPages(&f.Realistic, 1, 1)
	f.Store.Seal = "none"
	all["one page, no seal"] = f

	f = example(t)
	setPages(&f.Realistic, 13, 5)
	f.Store.Seal = "mac"
	f.Tiny.Verified = false
	all["13 pages, the tiny layout not verified"] = f
	return all
}

func render(t *testing.T, f *results.File) string {
	t.Helper()
	var page bytes.Buffer
	if err := Render(&page, f); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

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
		want = map[float64]string{1: "ms"}[scale]
	case strings.HasSuffix(f.Expr, "bytes") && f.Unit != "":
		want = map[float64]string{1: "bytes", 1e3: "kB", 1e6: "MB", 1e9: "GB"}[scale]
	case scale != 1:
		want = "no scale"
	}
	if f.Unit != want {
		t.Errorf("%s: unit %q with scale %v, want %q", f.Expr, f.Unit, scale, want)
	}
}

func plain(t *testing.T, f *results.File) any {
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

func TestEveryFigureEqualsTheFile(t *testing.T) {
	for name, f := range shapes(t) {
		t.Run(name, func(t *testing.T) {
			if _, err := results.Parse(must(json.Marshal(f))); err != nil {
				t.Fatalf("the file of this test: %v", err)
			}
			all := figuresOf(render(t, f))
			if len(all) < 150 {
				t.Errorf("only %d figures", len(all))
			}
			root := plain(t, f)
			for _, figure := range all {
				checkFigure(t, root, figure)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Whatever a run measures is on the page.
func TestEveryFigureOfTheFileIsShown(t *testing.T) {
	f := example(t)
	page := render(t, f)
	seen := map[string]bool{"schema_version": true}
	for _, figure := range figuresOf(page) {
		seen[figure.Expr] = true
		for _, word := range strings.Fields(figure.Expr) {
			seen[word] = true
		}
	}
	for _, m := range timeElement.FindAllStringSubmatch(page, -1) {
		seen[m[2]] = true
		if got := html.UnescapeString(m[1]); got != plain(t, f).(map[string]any)["generated_at"] {
			t.Errorf("generated at %s", got)
		}
	}
	var walk func(place string, v any)
	walk = func(place string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, inner := range v {
				walk(strings.TrimPrefix(place+"."+name, "."), inner)
			}
		case []any:
			if strings.HasPrefix(place, "tiny.page_outcomes") {
				return // shown as pages hit
			}
			for i, inner := range v {
				walk(fmt.Sprintf("%s.%d", place, i), inner)
			}
		default:
			if !seen[place] {
				t.Errorf("%s is not on the page", place)
			}
		}
	}
	walk("", plain(t, f))
}

// With every figure changed but the shape kept, nothing else on the page moves:
// no number comes from anywhere but the file.
func TestNothingButFiguresComesFromTheFile(t *testing.T) {
	f := example(t)
	root := plain(t, f).(map[string]any)
	keep := regexp.MustCompile(`\.(schema_version|pages|pages_hit|published|b_published|cores)$`)
	var change func(place string, v any) any
	change = func(place string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name := range v {
				v[name] = change(place+"."+name, v[name])
			}
		case []any:
			for i := range v {
				v[i] = change(place, v[i])
			}
		case float64:
			if keep.MatchString(place) {
				return v
			}
			if v == math.Trunc(v) {
				return math.Ceil(v * 1.01)
			}
			return v * 1.01
		}
		return v
	}
	var other results.File
	if err := json.Unmarshal(must(json.Marshal(change("", root))), &other); err != nil {
		t.Fatal(err)
	}
	other.Host.Name, other.Host.CPU, other.Host.OS, other.Host.Kernel, other.Command = "h", "c", "o", "k", "x"
	for part := range other.Versions {
		other.Versions[part] = "v"
	}
	rest := func(f *results.File) string {
		page := render(t, f)
		for _, element := range []*regexp.Regexp{dataElement, timeElement, shares} {
			page = element.ReplaceAllString(page, "")
		}
		return page
	}
	before, after := strings.Split(rest(f), "\n"), strings.Split(rest(&other), "\n")
	if len(before) != len(after) {
		t.Fatalf("%d lines became %d", len(before), len(after))
	}
	for i := range before {
		if before[i] != after[i] {
			t.Errorf("line %d:\n%s\nbecame\n%s", i+1, before[i], after[i])
		}
	}
}

// What is left of the page without its figures holds no number but names, page
// indexes and the goals.
func TestNoNumberIsWritten(t *testing.T) {
	page := render(t, example(t))
	for _, element := range []*regexp.Regexp{
		dataElement, timeElement, tallies,
		regexp.MustCompile(`(?s)^.*</style>`),
		regexp.MustCompile(`<span class="cell-index">\d+</span>|<th scope="row">\d+</th>|measured on 9 July 2026`),
		regexp.MustCompile(`<[^>]*>`),
	} {
		page = element.ReplaceAllString(page, " ")
	}
	for _, name := range []string{
		"PR 2800", "SHA-256", "XXH3-128", "BLAKE3", "p50", "Debian 12", "Python&nbsp;3",
		"at least 1.3×", "at least 1.5×", "at least 3×", "at least 80 %", "under 64 MiB",
		"pieces of 64 KiB", "MB is 10 6  bytes, GB is 10 9 ", "layout per page: 2 ×", "from 0",
	} {
		page = strings.ReplaceAll(page, name, "")
	}
	if numbers := regexp.MustCompile(`.{0,40}\d.{0,40}`).FindAllString(page, -1); numbers != nil {
		t.Errorf("numbers that are not figures: %q", numbers)
	}
}

func TestPageHasItsParts(t *testing.T) {
	page := render(t, example(t))
	for _, want := range []string{
		"<title>Ollama × Mooncake — Prefill/Decode KV Cache Disaggregation</title>",
		"transport: TCP", "single machine", "no RDMA hardware", "real Mooncake Store", "prefix keying", "round-trip verified",
		"tokens of prefill skipped", "KV page cache-hit rate", "prefix reload (p50)", "KV reuse throughput", "byte-exact round trip",
		"Data flow", "StoreComputed<wbr>Prefix()", "LoadCached<wbr>Prefix()", "Prefill worker", "Decode worker",
		"Prefill work avoided", "KV transfer throughput", "Prefix reload latency",
		"Python client, TCP", "One loopback TCP stream", "memcpy", "Checksum (XXH3-128)", "MAC (keyed BLAKE3)",
		"How it works", "Honest boundaries", "Both layouts", "KV layout per page", "Reproduce it", "bash demo/run_demo.sh", "Generated",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for class, want := range map[string]int{
		`<span class="cell hit">`: 7, `<span class="cell miss">`: 1, `<div class="tile`: 5, `class="verdict good"`: 6, `class="verdict bad"`: 2,
	} {
		if got := strings.Count(page, class); got != want {
			t.Errorf("%d of %s, want %d", got, class, want)
		}
	}
	if got := tallies.FindAllString(page, -1); len(got) != 3 || !strings.Contains(got[0]+got[1]+got[2], ">6<") ||
		!strings.Contains(got[1], ">8<") || !strings.Contains(got[2], ">2<") {
		t.Errorf("tallies of goals: %v", got)
	}
	if outside := regexp.MustCompile(`(?i)https?:|//[a-z]|<script|<link[^>]*href="[^d]|src=|url\(|@import`).FindAllString(page, -1); outside != nil {
		t.Errorf("the page refers to %q", outside)
	}
}

// A run that did not verify never passes for one that did.
func TestNotVerified(t *testing.T) {
	for place, spoil := range map[string]func(*results.File){
		"the realistic layout":     func(f *results.File) { f.Realistic.Verified = false },
		"the tiny layout":          func(f *results.File) { f.Tiny.Verified = false },
		"reloads over TCP":         func(f *results.File) { f.Transfer.TCP.Verified = false },
		"reloads by shared memory": func(f *results.File) { f.Transfer.SharedMemory.Verified = false },
	} {
		f := example(t)
		spoil(f)
		page := render(t, f)
		for _, want := range []string{"<strong>Not verified.</strong>", "round trip not verified", place, `<div class="tile bad">`} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q", place, want)
			}
		}
		for _, no := range []string{"round-trip verified", "<strong>Verified.</strong>", "loaded KV = published KV", `<div class="tile good">`} {
			if strings.Contains(page, no) {
				t.Errorf("%s: the page says %q", place, no)
			}
		}
	}
}

func TestNamesAreEscaped(t *testing.T) {
	f := example(t)
	const hostile = `"><script>alert(1)</script>`
	f.Host.Name, f.Command, f.Versions["python"] = hostile, hostile, hostile
	page := render(t, f)
	if strings.Contains(page, "<script") {
		t.Error("a name of the file became markup")
	}
	if strings.Count(page, html.EscapeString(hostile)) < 3 {
		t.Error("a name of the file is not shown as it is")
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestRenderReportsTheWriter(t *testing.T) {
	failure := errors.New("no room")
	if err := Render(failingWriter{failure}, example(t)); !errors.Is(err, failure) {
		t.Errorf("Render into a failing writer: %v", err)
	}
}

// Figures whose bytes took another way than their name says are called out.
func TestMisnamedPlane(t *testing.T) {
	payload := func(m results.Measurement) int64 { return m.ReloadBytes * int64(m.Iterations) }
	for name, spoil := range map[string]func(*results.File){
		"This client, shared memory": func(f *results.File) { f.Transfer.SharedMemory.LoopbackBytes = payload(f.Transfer.SharedMemory) },
		"This client, TCP":           func(f *results.File) { f.Transfer.TCP.LoopbackBytes = 1000 },
		"Python client, TCP":         func(f *results.File) { f.Peer.PythonClient.LoopbackBytes = 1000 },
	} {
		f := example(t)
		const notice = ": the name does not hold."
		if page := render(t, f); strings.Contains(page, notice) {
			t.Error("the example is called out")
		}
		spoil(f)
		if page := render(t, f); !strings.Contains(page, name+notice) || strings.Count(page, notice) != 1 {
			t.Errorf("%s is not called out, or others are", name)
		}
	}
}
