package router

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"ollamoon/internal/engine/enginetest"
)

// crowdPrompts are some prompts of more than a page, which begin with the same one.
func crowdPrompts() []string {
	common := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 30)
	var prompts []string
	for _, about := range []string{"the fox", "the dog", "a fence", "the sea", "a long road", "two birds", "the moon", "an old tree"} {
		prompts = append(prompts, common+"Now tell a story of "+about+". It is about "+strings.Repeat(about+" and ", 24))
	}
	return prompts
}

// crowd asks for so many answers at once and returns how many there were of each
// status. An answer is the one that is wanted of its prompt, or says when to come
// again.
func (f *front) crowd(n int, want map[string]string) map[int]int {
	f.t.Helper()
	prompts := crowdPrompts()
	var mu sync.Mutex
	count := map[int]int{}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			prompt := prompts[i%len(prompts)]
			got := f.greedy(prompt)
			mu.Lock()
			defer mu.Unlock()
			count[got.status]++
			switch {
			case got.status == http.StatusOK && f.content(got) != want[prompt]:
				f.t.Errorf("%q, want %q", f.content(got), want[prompt])
			case got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") == "":
				f.t.Errorf("it does not say when to come again: %v", got)
			}
		})
	}
	all.Wait()
	f.idle()
	return count
}

func (f *front) greedy(prompt string) outcome {
	body, err := json.Marshal(map[string]any{"prompt": prompt, "n_predict": 4, "temperature": 0})
	if err != nil {
		f.t.Error(err)
	}
	return f.ask(http.MethodPost, "/completion", string(body))
}

func (f *front) content(got outcome) string {
	var answer struct{ Content string }
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil || answer.Content == "" {
		f.t.Errorf("%d %s: %v", got.status, got.body, err)
	}
	return answer.Content
}

// 200 clients at once of two real engines with a slot each, which share pages: each
// gets the answer of an engine by itself, and where fewer can wait the others are
// told when to come again. Nothing is held afterwards.
func TestManyRequestsOnRealEngines(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "pages")
	args := []string{"-m", enginetest.Small(t), "--ollamoon-exact"}
	a, _ := startReal(t, "a", folder, args...)
	b, _ := startReal(t, "b", folder, args...)
	want := map[string]string{}
	first := newFront(t, realConfig(a))
	for _, prompt := range crowdPrompts() {
		want[prompt] = first.content(first.greedy(prompt))
	}
	c := realConfig(a, b)
	f := newFront(t, c)
	if count := f.crowd(200, want); count[http.StatusOK] != 200 {
		t.Errorf("by status: %v", count)
	}
	c.Queue = 10
	few := newFront(t, c)
	if count := few.crowd(60, want); count[http.StatusOK] < 12 || count[http.StatusServiceUnavailable] == 0 || count[http.StatusOK]+count[http.StatusServiceUnavailable] != 60 {
		t.Errorf("with a short queue, by status: %v", count)
	}
	asks := &prober{config: realConfig(), client: f.client}
	for _, spec := range []Spec{a, b} {
		var status struct {
			Slots struct{ Total, Free, Waiting int }
			Pages struct {
				Hit int64
			}
		}
		if _, err := asks.get(t.Context(), spec, "/ollamoon/status", &status); err != nil || status.Slots.Free != status.Slots.Total || status.Slots.Waiting != 0 {
			t.Errorf("%s: %+v, %v", spec.ID, status, err)
		}
		if status.Pages.Hit == 0 {
			t.Errorf("%s: pages are not shared: %+v", spec.ID, status)
		}
	}
}
