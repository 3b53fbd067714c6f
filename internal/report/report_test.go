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
	f.Store.Seal, f.Engine = "none", nil
	all["one page, no seal"] = f

	f = example(t)
	setPages(&f.Realistic, 13, 5)
	f.Store.Seal = "mac"
	f.Tiny.Verified = false
	e := f.Engine
	e.Model, e.AnswersEqual = "a-model-of-a-very-long-name-7B-Instruct-v0.3.Q4_K_M.gguf", false
	e.PagesLoaded, e.PublishedPages, e.TokensSkipped = 1, 1, 256
	e.TTFTComputedMS, e.TTFTReusedMS, e.TTFTPublishingMS = 123456.7, 99000, 130000
	e.Breakdown = results.Breakdown{Lookup: 0.4, Load: 2, Restore: 3.1, Compute: 98990}
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
		"With a real model", "tokens of B not computed", "as fast to the first token", "answers with and without Ollamoon",
		"Time to the first token", "Where worker B’s time went", "One small model",
		"How it works", "Honest boundaries", "Both layouts", "KV layout per page", "Reproduce it", "bash demo/run_demo.sh", "Generated",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for class, want := range map[string]int{
		`<span class="cell hit">`: 7, `<span class="cell miss">`: 1, `<div class="tile`: 8, `class="verdict good"`: 6, `class="verdict bad"`: 2,
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

// Without a model the page says nothing of one; answers that differ are called
// out.
func TestModel(t *testing.T) {
	f := example(t)
	const notice = "<strong>The answers differ.</strong>"
	if page := render(t, f); strings.Contains(page, notice) || strings.Contains(page, "not equal") {
		t.Error("the example is called out")
	}
	f.Engine.AnswersEqual = false
	if page := render(t, f); !strings.Contains(page, notice) || !strings.Contains(page, "not equal") || strings.Contains(page, "answers good") {
		t.Error("answers that differ are not called out")
	}
	f.Engine = nil
	for _, no := range []string{`id="model"`, `data-figure="engine`, "a section of their own", "One small model", "llama-servers"} {
		if strings.Contains(render(t, f), no) {
			t.Errorf("without a model the page has %q", no)
		}
	}
}
