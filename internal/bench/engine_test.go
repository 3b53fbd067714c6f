package bench

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ollamoon/internal/engine"
	"ollamoon/page"
)

// engineRun is a run on a small store, for what is done with a model only.
func engineRun(t *testing.T, seal Seal) (*run, engine.Programs) {
	t.Helper()
	programs, err := engine.Find()
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	o.Seal, o.SegmentBytes = seal, 64<<20
	o.Engine = &EngineOptions{Worker: self(t, roleWorker), Tokens: 640, Shared: 512}
	r := &run{Options: o, dir: t.TempDir(), key: make([]byte, page.KeyBytes)}
	if err := r.startCluster(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cluster.Close)
	return r, programs
}

// Two workers share a prompt's pages through a real store, and answer as a
// llama-server without them does.
func TestMeasureEngine(t *testing.T) {
	r, programs := engineRun(t, MAC)
	e, err := r.measureEngine(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	if e.PromptTokens != 640 || e.TokensSkipped != 512 || e.PagesLoaded != 2 || e.PublishedPages != 2 || e.PageTokens != 256 {
		t.Errorf("of two pages: %+v", e)
	}
	const smollm2 = 2 * 30 * 3 * 64 * 256 * 2 // keys and values, layers, heads, elements, tokens, bytes
	if e.PageBytes != smollm2 || e.Model != filepath.Base(programs.Model) || e.Build == "" {
		t.Errorf("model: %+v", e)
	}
	if !e.AnswersEqual || e.GeneratedTokens != 16 || e.Probabilities != 80 {
		t.Errorf("answers: %+v", e)
	}
	if b := e.Breakdown; b.Lookup <= 0 || b.Load <= 0 || b.Restore <= 0 || b.Compute <= 0 || e.TTFTComputedMS <= 0 || e.TTFTPublishingMS <= 0 || e.TTFTReusedMS <= 0 {
		t.Errorf("times: %+v", e)
	}
	t.Logf("%+v", *e)
}

// A trial that is interrupted while its servers start ends soon, with none of
// them left: their ends are waited for.
func TestMeasureEngineInterrupted(t *testing.T) {
	r, programs := engineRun(t, Checksum)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := r.measureEngine(ctx, programs); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted: %v", err)
	}
	if took := time.Since(begin); took > modelTimeout/2 {
		t.Errorf("it took %v to end", took)
	}
}

// Without a worker that runs there are no results, and the reason has its output.
func TestMeasureEngineFails(t *testing.T) {
	r, programs := engineRun(t, Checksum)
	r.Engine.Worker.Args = []string{roleSender, "127.0.0.1:1", "x", "y"}
	if _, err := r.measureEngine(t.Context(), programs); err == nil {
		t.Error("no error")
	}
}

func TestWithoutSettings(t *testing.T) {
	got := withoutSettings([]string{"PATH=/bin", "LLAMA_ARG_PORT=1", "OLLAMOON_STORE=none", "HOME=/"})
	if !slices.Equal(got, []string{"PATH=/bin", "HOME=/"}) {
		t.Errorf("%v", got)
	}
}

func TestCompletionsAreCompared(t *testing.T) {
	stream := func(text, top string) *completion {
		c := &completion{}
		if _, err := c.add([]byte(`{"content":"` + text + `","completion_probabilities":[{"top_logprobs":` + top + `}]}`)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	one := stream("a", `[{"id":1,"logprob":-0.5},{"id":2,"logprob":-1}]`)
	for _, c := range []struct {
		other *completion
		want  bool
	}{
		{stream("a", `[{"id":1,"logprob":-0.5},{"id":2,"logprob":-1}]`), true},
		{stream("b", `[{"id":1,"logprob":-0.5},{"id":2,"logprob":-1}]`), false},
		{stream("a", `[{"id":1,"logprob":-0.50001},{"id":2,"logprob":-1}]`), false},
		{&completion{text: "a"}, false},
	} {
		if got := one.equals(c.other); got != c.want {
			t.Errorf("%+v: %t", c.other, got)
		}
	}
	if n, err := one.count(); n != 2 || err != nil {
		t.Errorf("%d probabilities, %v", n, err)
	}
	if _, err := one.add([]byte(`{"error":{"message":"no"}}`)); !errors.Is(err, errUnexpected) {
		t.Errorf("an error in the stream: %v", err)
	}
}
