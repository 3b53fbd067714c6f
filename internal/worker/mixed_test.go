package worker

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ollamoon/internal/engine/enginetest"
	"ollamoon/store"
	"ollamoon/store/file"
	"ollamoon/store/memory"
)

// mixed returns prompts of which many begin alike: a root, perhaps a branch, and a
// tail of their own that is longer than the least batch.
func (r *running) mixed(n int) [][]int32 {
	r.t.Helper()
	lengths := []int{260, 270, 256, 100} // of two roots and two branches
	text := r.tokens("t", 886)
	var parts [][]int32
	for _, n := range lengths {
		parts = append(parts, text[:n])
		text = text[n:]
	}
	random := rand.New(rand.NewPCG(4, 2)) //nolint:gosec // the same prompts in each run
	prompts := make([][]int32, n)
	for i := range prompts {
		prompt := slices.Clone(parts[random.IntN(2)])
		if branch := random.IntN(4); branch < 2 {
			prompt = append(prompt, parts[2+branch]...)
		}
		for range minBatch + random.IntN(32) {
			prompt = append(prompt, int32(500+random.IntN(20_000))) //nolint:gosec // tokens of the model
		}
		prompts[i] = prompt
	}
	return prompts
}

// folderBytes is what the files in a folder take, in whole blocks.
func folderBytes(folder string) (total int64) {
	_ = filepath.WalkDir(folder, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil //nolint:nilerr // it has been removed meanwhile
		}
		if info, err := e.Info(); err == nil {
			total += (info.Size() + 4095) / 4096 * 4096
		}
		return nil
	})
	return total
}

// A watch notes the most that a folder's files took.
type watch struct {
	most  int64
	over  chan struct{}
	ended sync.WaitGroup
}

func watched(folder string) *watch {
	w := &watch{over: make(chan struct{})}
	w.ended.Go(func() {
		for {
			w.most = max(w.most, folderBytes(folder))
			select {
			case <-w.over:
				return
			case <-time.After(3 * time.Millisecond):
			}
		}
	})
	return w
}

func (w *watch) end() int64 {
	close(w.over)
	w.ended.Wait()
	return w.most
}

// residentBytes is the memory that a process has at the moment.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// inSharedMemory makes the test's temporary folders in a file system in memory.
func inSharedMemory(t *testing.T) {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "ollamoon-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	t.Setenv("TMPDIR", folder)
}

// Prompts of many lengths that share beginnings, with a store that has no room for
// them all: it keeps to its budget, slot files to those that are being moved,
// memory does not grow, and each answer is that of an engine without this
// package, digit for digit.
func TestMixedPromptsInASmallStore(t *testing.T) {
	t.Run("the whole model", func(t *testing.T) { mixedPrompts(t, 30, 20<<20) })
	if full() {
		t.Run("two layers", func(t *testing.T) { mixedPrompts(t, 2500, 20<<20/15, "-m", enginetest.Small(t)) })
	}
}

// mixedPrompts asks n of them of a worker with files and of one with a store in
// memory, with a budget in bytes of some three pages.
func mixedPrompts(t *testing.T, n int, budget int64, args ...string) {
	t.Helper()
	// One batch holds any prompt, so that no engine computes a part of less than
	// minBatch tokens.
	args = append([]string{"-c", "2048", "-b", "1024", "-ub", "1024", "--cache-ram", "0"}, args...)
	twin := start(t, nil, nil, append(args, "-np", "1")...)
	prompts := twin.mixed(n)
	want := make([]answer, len(prompts))
	for i, prompt := range prompts {
		want[i] = twin.ask(briefly(prompt))
	}
	twin.engine.Stop(0) // one engine at a time
	folder := t.TempDir()
	for name, s := range map[string]struct {
		open  func() (store.Store, error)
		exact bool
		args  []string
	}{
		"file": {open: func() (store.Store, error) {
			return file.Open(file.Config{Dir: filepath.Join(folder, "pages"), BudgetBytes: budget})
		}, exact: true, args: []string{"-np", "1"}},
		"memory": {open: func() (store.Store, error) { return memory.New(budget) }, args: []string{"-np", "2", "-no-kvu"}},
	} {
		t.Run(name, func(t *testing.T) {
			inSharedMemory(t)
			pages, err := s.open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = pages.Close() })
			r := start(t, pages, func(sharing *Sharing) { sharing.Exact, sharing.UBatch = s.exact, 1024 }, append(args, s.args...)...)
			r.worker.memory.limit = 0 // as the engine's is
			slots := watched(r.folder)
			resident := func() int64 { return residentBytes(t, os.Getpid()) + residentBytes(t, r.engine.PID()) }
			var before int64
			for i, prompt := range prompts {
				if i == len(prompts)/3 {
					before = resident()
				}
				got := r.ask(briefly(prompt))
				if !bytes.Equal(got.Probabilities, want[i].Probabilities) || len(got.Probabilities) < 100 {
					t.Errorf("prompt %d: %+v, and without Ollamoon %+v: %q, want %q", i, got.Timings, want[i].Timings, got.Content, want[i].Content)
				}
				if n := folderBytes(folder); n > budget+1<<20 { // and its own small files
					t.Fatalf("prompt %d: %d bytes in a store of %d", i, n, budget)
				}
				if files := r.slotFiles(); len(files) > 0 {
					t.Fatalf("prompt %d: slot files are left: %v", i, files)
				}
			}
			grown, most := resident()-before, slots.end()
			page := r.worker.share.Load().Shape.Sections[0].PageBytes(PageTokens)
			if limit := int64(10 * page); most > limit || most == 0 { // two prompts', one being read and one written
				t.Errorf("slot files took up to %d bytes, want at most %d", most, limit)
			}
			if limit := int64(128 << 20); grown > limit {
				t.Errorf("memory has grown by %d bytes, want at most %d", grown, limit)
			}
			stats := r.worker.Status().Pages
			t.Logf("%+v; slot files took up to %d bytes, memory grew by %d", stats, most, grown)
			if len(stats.Rejected) > 0 || stats.PagesPublished <= 3 || stats.PagesHit == 0 {
				t.Errorf("stats %+v", stats)
			}
		})
	}
}

// briefly asks for two greedy tokens with their five likeliest.
func briefly(prompt []int32) map[string]any {
	body := greedy(prompt)
	body["n_predict"] = 2
	return body
}
