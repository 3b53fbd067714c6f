package standin

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ollamoon/internal/simulate/trace"
	"ollamoon/internal/worker"
)

// The requests of two runs are logged one after the other, for nobody but the
// user, and become a trace with their lengths and what they share.
func TestRequestsAreLogged(t *testing.T) {
	log := filepath.Join(t.TempDir(), "requests.log")
	var lengths []int
	for _, tail := range []string{"", "and this is the end of it"} {
		r := standing(t, "OLLAMOON_STORE=memory:").serve(t, model(t, "--ollamoon-request-log", log)...)
		answer := r.complete(prompt(80, "sheep") + tail)
		lengths = append(lengths, answer.Timings.Cached+answer.Timings.Computed)
		r.signal(syscall.SIGTERM)
		if e := r.end(); e != (Exit{}) {
			t.Errorf("it ends with %v", e)
		}
	}
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // read only
	if info, err := file.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the log's mode: %v, %v", info.Mode(), err)
	}
	var converted bytes.Buffer
	n, tokens, err := trace.Convert(&converted, file)
	if err != nil || n != 2 || tokens != worker.DefaultPageTokens {
		t.Fatalf("%d requests, pages of %d tokens, %v", n, tokens, err)
	}
	tr, err := trace.Read(&converted, tokens)
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range tr.Requests {
		if q.Input != lengths[i] || q.Output < 1 {
			t.Errorf("request %d: %d tokens and %d, want %d and some", i, q.Input, q.Output, lengths[i])
		}
	}
	if hits, want := tr.Blocks().Ideal(), lengths[0]/worker.DefaultPageTokens; hits != want {
		t.Errorf("%d pages in common, want %d", hits, want)
	}
}

// A log that cannot be written keeps nobody from being served.
func TestRequestsThatCannotBeLogged(t *testing.T) {
	r := standing(t, "OLLAMOON_STORE=memory:").serve(t, model(t, "--ollamoon-request-log", t.TempDir())...)
	if answer := r.complete(prompt(80, "sheep")); answer.Content == "" {
		t.Error("no answer")
	}
	r.signal(syscall.SIGTERM)
	if e := r.end(); e != (Exit{}) || !strings.Contains(r.errs.String(), "requests are not logged") {
		t.Errorf("it ends with %v and said\n%s", e, r.errs)
	}
}
