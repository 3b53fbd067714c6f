package report

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"ollamoon/internal/results"
)

const title = "Ollama × Mooncake — Prefill/Decode KV Cache Disaggregation"

// A browser is a real Chromium with one tab, and what it said and asked for.
type browser struct {
	ctx context.Context // the tab's

	mu struct {
		sync.Mutex
		said  []string // to the console or the log
		asked []string // requests
	}
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no chromium: run scripts/setup.sh --tests")
	return ""
}

// startBrowser starts a headless Chromium with a new profile, which is cut off
// from any network.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)),
		chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"),
	)
	// The test's own context ends before its clean-up, which closes the browser.
	limited, stop := context.WithTimeout(context.WithoutCancel(t.Context()), 4*time.Minute)
	t.Cleanup(stop)
	allocator, free := chromedp.NewExecAllocator(limited, options...)
	t.Cleanup(free)
	tab, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	b := &browser{ctx: tab}
	if err := chromedp.Listen(tab, b.hear); err != nil {
		t.Fatalf("starting chromium: %v", err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(tab); err != nil {
			t.Errorf("closing chromium: %v", err)
		}
	})
	return b
}

func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b.mu.said = append(b.mu.said, fmt.Sprintf("console.%s", e.Type))
	case *runtime.EventExceptionThrown:
		b.mu.said = append(b.mu.said, fmt.Sprintf("exception: %s", e.ExceptionDetails.Text))
	case *log.EventEntryAdded:
		b.mu.said = append(b.mu.said, fmt.Sprintf("log %s: %s", e.Entry.Level, e.Entry.Text))
	case *network.EventRequestWillBeSent:
		b.mu.asked = append(b.mu.asked, e.Request.URL)
	}
}

// heard returns what the browser said and asked for since the last call.
func (b *browser) heard() (said, asked []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	said, asked = b.mu.said, b.mu.asked
	b.mu.said, b.mu.asked = nil, nil
	return said, asked
}

// open lays the page out in a window of a width and a colour scheme.
func (b *browser) open(t *testing.T, url string, width int64, scheme string) {
	t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, 900)); err != nil {
		t.Fatalf("setting the window: %v", err)
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatalf("setting the colour scheme: %v", err)
	}
	if err := chromedp.Do(b.ctx, chromedp.Navigate(url)); err != nil {
		t.Fatalf("opening the page: %v", err)
	}
}

func writePage(t *testing.T, f *results.File) (url string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.html")
	if err := os.WriteFile(path, []byte(render(t, f)), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file://" + path
}

// A finding is what testdata/check.js returns.
type finding struct {
	Problems       []string      `json:"problems"`
	Figures        []shownFigure `json:"figures"`
	Title, Heading string
}

func (b *browser) check(t *testing.T) finding {
	t.Helper()
	script, err := os.ReadFile("testdata/check.js")
	if err != nil {
		t.Fatal(err)
	}
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[finding](string(script)))
	if err != nil {
		t.Fatalf("checking the page: %v", err)
	}
	return found
}

// The page as a browser shows it: all shapes of runs, at the widths of a phone,
// a tablet and a desk, light and dark.
func TestPageInChromium(t *testing.T) {
	b := startBrowser(t)
	for name, f := range shapes(t) {
		url := writePage(t, f)
		for _, width := range []int64{360, 768, 1440} {
			for _, scheme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s, %d px, %s", name, width, scheme), func(t *testing.T) {
					b.open(t, url, width, scheme)
					found := b.check(t)
					for _, p := range found.Problems {
						t.Error(p)
					}
					root := plain(t, f)
					for _, figure := range found.Figures {
						checkFigure(t, root, figure)
					}
					if want := len(figuresOf(render(t, f))); len(found.Figures) != want {
						t.Errorf("the browser has %d figures, the page %d", len(found.Figures), want)
					}
					if found.Title != title || found.Heading != title {
						t.Errorf("title %q, heading %q", found.Title, found.Heading)
					}
					said, asked := b.heard()
					if len(said) > 0 {
						t.Errorf("the browser said %q", said)
					}
					if len(asked) != 1 || asked[0] != url {
						t.Errorf("the page made the browser ask for %q", asked)
					}
				})
			}
		}
		b.checkImages(t, f)
	}
}

// The checks see what they are there for.
func TestChecksFindProblems(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.html")
	const bad = `<!doctype html><html><body><h1>a</h1><h3>b</h3><p style="width:2000px">wide</p>
		<p style="color:#999;background:#fff">pale</p><p style="width:20px;overflow:hidden;white-space:nowrap">cut off</p>
		<svg></svg><img src="http://elsewhere.invalid/x.png"><script>console.warn("x")</script></body></html>`
	if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	b := startBrowser(t)
	b.open(t, "file://"+path, 1440, "light")
	problems := strings.Join(b.check(t).Problems, "\n")
	for _, want := range []string{
		"px wide in a window of 1440", `reaches out of the window: <p class=""> wide`, `contrast 2.85: <p class=""> pale`,
		`its text is wider than it: <p class=""> cut off`, "an image without a name: <svg", "an image without its data: <img",
		"a heading of level 3 after 1", "no language",
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("%q was not found among:\n%s", want, problems)
		}
	}
	said, asked := b.heard()
	if !strings.Contains(strings.Join(said, " "), "console.warning") || len(asked) != 2 {
		t.Errorf("heard %q, asked for %q", said, asked)
	}
}

// checkImages reads the accessibility tree, as a screen reader would.
func (b *browser) checkImages(t *testing.T, f *results.File) {
	t.Helper()
	tree, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatalf("reading the accessibility tree: %v", err)
	}
	images := 0
	for _, node := range tree.Nodes {
		if node.Ignored || node.Role == nil || !strings.Contains(strings.ToLower(string(node.Role.Value)), "im") {
			continue
		}
		role := string(node.Role.Value)
		if role != `"image"` && role != `"img"` {
			continue
		}
		images++
		if node.Name == nil || len(node.Name.Value) <= 2 || node.Description == nil || len(node.Description.Value) <= 2 {
			t.Errorf("an image without name or description: %v %v", node.Name, node.Description)
		}
	}
	want := 6
	if f.Engine != nil {
		want += 2
	}
	if images != want {
		t.Errorf("a screen reader finds %d images, want %d", images, want)
	}
}

var update = flag.Bool("update", false, "write demo/page.png, a screenshot of the page for demo/bench-results.json")

// The README's picture: the page down to its charts, 1,440 px wide. With
// -update it is taken from the demo's own results and kept.
func TestScreenshot(t *testing.T) {
	f := example(t)
	if *update {
		data, err := os.ReadFile("../../demo/bench-results.json")
		if err != nil {
			t.Fatalf("no results of the demo, run bash demo/run_demo.sh: %v", err)
		}
		if f, err = results.Parse(data); err != nil {
			t.Fatal(err)
		}
	}
	b := startBrowser(t)
	b.open(t, writePage(t, f), 1440, "light")
	height, err := chromedp.Run(b.ctx, chromedp.Evaluate[float64](`document.querySelector("#latency").getBoundingClientRect().bottom + 48`))
	if err != nil {
		t.Fatal(err)
	}
	shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Clip:                  &page.Viewport{Width: 1440, Height: height, Scale: 1},
		CaptureBeyondViewport: &[]bool{true}[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		t.Fatal(err)
	}
	if size := picture.Bounds().Size(); size.X != 1440 || size.Y < 1200 || size.Y > 2400 || colours(picture) < 50 {
		t.Errorf("the screenshot is %v with %d colours", size, colours(picture))
	}
	if *update {
		if err := os.WriteFile("../../demo/page.png", shot.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// colours counts what is on the picture; a page that was not laid out has few.
func colours(picture image.Image) int {
	seen := map[[4]uint32]bool{}
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y += 3 {
		for x := bounds.Min.X; x < bounds.Max.X; x += 3 {
			r, g, b, a := picture.At(x, y).RGBA()
			seen[[4]uint32{r, g, b, a}] = true
		}
	}
	return len(seen)
}
