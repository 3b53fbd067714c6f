package standin

import (
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ollamoon/internal/engine/enginetest"
	"ollamoon/internal/worker"
)

// The disk under the pages, and under the files of slots, fills up while a stand-in
// runs: prompts are answered as without it, that is said once, nothing half is left,
// and when there is room again pages are shared as before. A limit on what the
// running process may write stands for the disk; the real engine has none.
func TestDiskFull(t *testing.T) {
	args := []string{"-m", enginetest.Small(t), "-ngl", "0", "-t", "1", "-c", "2048", "-np", "1", "--cache-ram", "0"}
	before, meanwhile, afterwards := prompt(45, "before"), prompt(45, "meanwhile"), prompt(45, "afterwards")
	alone := stock(t).serve(t, args...)
	want := map[string]completion{}
	for _, text := range []string{before, meanwhile, afterwards} {
		want[text] = alone.complete(text)
	}
	alone.signal(syscall.SIGKILL)

	folder := filepath.Join(t.TempDir(), "pages")
	r := standing(t, "OLLAMOON_STORE=file:"+folder, "OLLAMOON_LOG_LEVEL=info").serve(t, args...)
	answers := func(text string) completion {
		t.Helper()
		got := r.complete(text)
		if got.Content != want[text].Content {
			t.Errorf("%q, want %q", got.Content, want[text].Content)
		}
		return got
	}
	answers(before)
	r.published(1)
	pages := r.status().Pages.PagesPublished

	r.limitFiles(4096)
	for range 2 {
		answers(meanwhile) // after another prompt
		if got := answers(before); got.Timings.Cached >= worker.DefaultPageTokens {
			t.Errorf("%d tokens come through a file that there is no room for", got.Timings.Cached)
		}
	}
	eventually(t, "pages are refused", func() bool {
		return r.metric(`publish_failures_total{phase="publish"}`) >= 2 && r.status().Slots.Free == 1
	})
	if s := r.status(); s.Pages.PagesPublished != pages || !s.Sharing || s.StoreState.Breaker != "closed" {
		t.Errorf("status %+v, of %d pages before", s, pages)
	}
	eventually(t, "nothing half is left", func() bool { return len(filesIn(t, folder, "tmp")) == 0 })
	for _, said := range []string{"the store takes no pages", "a prompt is not shared, and so it will be with others"} {
		if n := strings.Count(r.errs.String(), said); n != 1 {
			t.Errorf("that %q is said %d times", said, n)
		}
	}
	if n := r.metric("slot_files_refused_total"); n != 2 {
		t.Errorf("%v slot files are refused", n)
	}
	if n := strings.Count(r.errs.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings", n)
	}

	r.limitFiles(math.MaxUint64)
	if got := answers(meanwhile); got.Timings.Cached >= worker.DefaultPageTokens {
		t.Errorf("%d tokens of what could not be published", got.Timings.Cached)
	}
	r.published(pages + 1)
	answers(afterwards)
	for _, text := range []string{before, meanwhile} {
		if got := answers(text); got.Timings.Cached < worker.DefaultPageTokens {
			t.Errorf("only %d tokens are shared when there is room", got.Timings.Cached)
		}
	}
	if n := strings.Count(r.errs.String(), "the store takes pages again"); n != 1 {
		t.Errorf("that there is room again is said %d times", n)
	}
	r.signal(syscall.SIGTERM)
	if e := r.end(); e != (Exit{}) {
		t.Errorf("it ends with %v", e)
	}
}

// limitFiles bounds how long a file a running process may write.
func (r *running) limitFiles(bytes uint64) {
	r.t.Helper()
	limit := unix.Rlimit{Cur: bytes, Max: math.MaxUint64}
	if err := unix.Prlimit(r.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		r.t.Fatal(err)
	}
}

// filesIn returns the files below a folder that are also below one of some name.
func filesIn(t *testing.T, folder, name string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && filepath.Base(filepath.Dir(path)) == name {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(wait); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", wait, what)
		}
	}
}
