package standin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ollamoon/internal/cluster"
	"ollamoon/internal/worker"
)

// words makes a prompt of so many tokens that no other begins like, as the
// engine's own tokenizer counts them.
func (r *running) words(n int, seed string) []int32 {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{"content": prompt(n, seed), "add_special": true})
	if err != nil {
		r.t.Fatal(err)
	}
	code, answer, _ := r.ask(http.MethodPost, "/tokenize", string(body))
	var got struct{ Tokens []int32 }
	if err := json.Unmarshal([]byte(answer), &got); err != nil || code != http.StatusOK || len(got.Tokens) < n {
		r.t.Fatalf("%d tokens of %d: %d, %v", len(got.Tokens), n, code, err)
	}
	return got.Tokens[:n]
}

// A likely is an answer with what was likely for each of its tokens.
type likely struct {
	completion
	Probabilities json.RawMessage `json:"completion_probabilities"`
}

// likely asks for greedy tokens with their five likeliest.
func (r *running) likely(tokens []int32, predict int) likely {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{
		"prompt": tokens, "n_predict": predict, "temperature": 0, "n_probs": 5, "cache_prompt": true, "id_slot": 0,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	code, answer, _ := r.ask(http.MethodPost, "/completion", string(body))
	var got likely
	if err := json.Unmarshal([]byte(answer), &got); err != nil || code != http.StatusOK {
		r.t.Fatalf("%d, %.300s: %v", code, answer, err)
	}
	return got
}

// published waits until a stand-in has published so many pages.
func (r *running) published(pages int64) {
	r.t.Helper()
	for end := time.Now().Add(wait); r.status().Pages.PagesPublished < pages; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("status %+v, want %d pages published", r.status(), pages)
		}
	}
}

// mooncakes starts a Mooncake Store and returns it with its URL for a stand-in
// that uses it over TCP.
func mooncakes(t *testing.T, config cluster.Config) (*cluster.Cluster, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	config.Metadata = cluster.MetadataP2P
	c, err := cluster.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, "OLLAMOON_STORE=mooncake://" + c.Master() + "?metadata=" + c.Metadata() + "&shared_memory=off"
}

// What a process reads of another's pages, in a folder or in Mooncake, gives the
// same answer, digit for digit, as a slot that an engine without this program has
// primed with the same pages.
func TestPagesOfAnotherProcess(t *testing.T) {
	lengths := []int{257, 513}
	noMemory := model(t, "--cache-ram", "0")
	primed := stock(t).serve(t, append(noMemory, "--slot-save-path", t.TempDir())...)
	prompts, want := map[int][]int32{}, map[int]likely{}
	for _, n := range lengths {
		prompts[n] = primed.words(n+80, fmt.Sprint("process ", n))
		if code, body, _ := primed.ask(http.MethodPost, "/slots/0?action=erase", "{}"); code != http.StatusOK {
			t.Fatal(code, body)
		}
		primed.likely(prompts[n][:n-1], 0)
		want[n] = primed.likely(prompts[n][:n], 16)
		if c := want[n].Timings.Cached; c != n-1 || len(want[n].Probabilities) < 1000 {
			t.Fatalf("the primed slot reuses %d tokens of %d", c, n)
		}
	}
	primed.signal(syscall.SIGKILL)
	_, mooncake := mooncakes(t, cluster.Config{})
	for name, pages := range map[string]string{"folder": "OLLAMOON_STORE=file:" + filepath.Join(t.TempDir(), "pages"), "Mooncake": mooncake} {
		t.Run(name, func(t *testing.T) {
			publisher := standing(t, pages).serve(t, noMemory...)
			for _, n := range lengths {
				publisher.likely(prompts[n], 1)
			}
			publisher.published(3)
			publisher.signal(syscall.SIGTERM)
			publisher.end()
			reader := standing(t, pages).serve(t, noMemory...)
			for _, n := range lengths {
				got := reader.likely(prompts[n][:n], 16)
				if got.Timings.Cached != n-1 || !bytes.Equal(got.Probabilities, want[n].Probabilities) {
					t.Errorf("%d tokens: %+v, and other probabilities than on a primed slot:\n%s\n%s", n, got.Timings, got.Probabilities, want[n].Probabilities)
				}
			}
		})
	}
}

// The same request ten times, under exact, at two processes: cold, on a slot that
// has it, from the store. The bytes are the same.
func TestExactAnswersAreTheSameEverywhere(t *testing.T) {
	settings := []string{"OLLAMOON_STORE=file:" + filepath.Join(t.TempDir(), "pages"), "OLLAMOON_EXACT=true"}
	first, second := standing(t, settings...).serve(t, model(t)...), standing(t, settings...).serve(t, model(t)...)
	tokens := first.words(340, "exact")
	cold := first.likely(tokens, 8)
	first.published(1)
	if cold.Timings.Cached != 0 || len(cold.Probabilities) < 500 {
		t.Fatalf("the first answer is not cold: %+v", cold.Timings)
	}
	for i := range 9 {
		r := first
		if i%2 == 0 {
			r = second
		}
		if got := r.likely(tokens, 8); got.Content != cold.Content || !bytes.Equal(got.Probabilities, cold.Probabilities) || got.Timings.Cached != worker.DefaultPageTokens {
			t.Errorf("request %d: %+v, and another answer than cold:\n%s\n%s", i, got.Timings, got.Probabilities, cold.Probabilities)
		}
	}
}

// Processes whose caches differ share a folder and never meet in it, in neither
// direction; each finds its own pages there.
func TestProcessesOfDifferentNamespaces(t *testing.T) {
	pages := "OLLAMOON_STORE=file:" + filepath.Join(t.TempDir(), "pages")
	args := model(t, "--cache-ram", "0", "-c", "1024")
	weights := otherWeights(t, installed(t).Model)
	names := []string{"plain", "of another tenant", "of type q8_0", "of other weights"}
	processes := []*running{
		standing(t, pages).serve(t, args...),
		standing(t, pages, "OLLAMOON_TENANT=other").serve(t, args...),
		standing(t, pages).serve(t, append(args, "-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0")...),
		standing(t, pages).serve(t, append([]string{"-m", weights}, args[2:]...)...),
	}
	var prompts [][]int32
	hits := func(i int) int64 { return processes[i].status().Pages.PagesHit }
	for i, p := range processes {
		prompts = append(prompts, p.words(330, names[i]))
		p.likely(prompts[i], 1)
		p.published(1)
	}
	cross := func(reader, owner int) {
		t.Helper()
		if got := processes[reader].likely(prompts[owner], 1); got.Timings.Cached >= worker.DefaultPageTokens || hits(reader) != 0 {
			t.Errorf("the process %s finds %d tokens of the one %s", names[reader], got.Timings.Cached, names[owner])
		}
	}
	for i := 1; i < len(processes); i++ {
		cross(0, i)
		cross(i, 0)
	}
	for i, p := range processes { // after another prompt
		if got := p.likely(prompts[i], 1); got.Timings.Cached != worker.DefaultPageTokens || hits(i) != 1 {
			t.Errorf("the process %s finds %d tokens of its own", names[i], got.Timings.Cached)
		}
	}
}

// otherWeights is a model's file of which one bit of the last tensor differs.
func otherWeights(t *testing.T, model string) string {
	t.Helper()
	data, err := os.ReadFile(model) //nolint:gosec // what is installed
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-100] ^= 1
	path := filepath.Join(t.TempDir(), "other.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A process is killed while its pages are on their way into Mooncake: nobody finds
// half a page, others answer, and when the master has given the writer up they
// publish.
func TestPublisherKilledWhileItPuts(t *testing.T) {
	c, pages := mooncakes(t, cluster.Config{MasterFlags: []string{"--put_start_discard_timeout_sec=2", "--put_start_release_timeout_sec=3"}})
	deadline := "OLLAMOON_DEADLINE=5s"
	publisher := standing(t, pages, deadline).serve(t, model(t, "--cache-ram", "0")...)
	other := standing(t, pages, deadline).serve(t, model(t, "--cache-ram", "0")...)
	tokens := publisher.words(330, "killed")
	if err := syscall.Kill(c.OwnerPID(), syscall.SIGSTOP); err != nil { // holds the data up
		t.Fatal(err)
	}
	thaw := func() { _ = syscall.Kill(c.OwnerPID(), syscall.SIGCONT) }
	defer thaw()
	want := publisher.likely(tokens, 4) // its pages go on their way before this answer ends
	time.Sleep(100 * time.Millisecond)
	if n := publisher.status().Pages.PagesPublished; n != 0 {
		t.Fatalf("%d pages are published while the store stands still", n)
	}
	child := publisher.status().Engine.PID
	publisher.signal(syscall.SIGKILL)
	publisher.end()
	gone(t, child)
	begin := time.Now()
	if got := other.likely(tokens, 4); got.Content != want.Content || got.Timings.Cached != 0 {
		t.Errorf("%q of %+v, want %q", got.Content, got.Timings, want.Content)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("an answer took %v while a put was going on", took)
	}
	thaw()
	for end := time.Now().Add(wait); other.status().Pages.PagesPublished == 0; {
		another := append([]int32{tokens[5]}, tokens[1:20]...)
		other.likely(another, 1) // takes the slot
		if got := other.likely(tokens, 4); got.Content != want.Content {
			t.Fatalf("%q, want %q", got.Content, want.Content)
		}
		if time.Now().After(end) {
			t.Fatalf("nothing is published again: %+v", other.status().Pages)
		}
	}
	other.likely(tokens[100:150], 1)
	if got := other.likely(tokens, 4); got.Content != want.Content || got.Timings.Cached != worker.DefaultPageTokens {
		t.Errorf("%q of %+v, want %q of one page", got.Content, got.Timings, want.Content)
	}
	if s := other.status().Pages; len(s.Rejected) > 0 || strings.Contains(other.errs.String(), "panic") {
		t.Errorf("pages %+v", s)
	}
}
