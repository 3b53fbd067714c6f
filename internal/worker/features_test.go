package worker

import (
	"bytes"
	"net/http"
	"regexp"
	"testing"

	"ollamoon/internal/engine"
	"ollamoon/internal/engine/enginetest"
	"ollamoon/slotfile"
)

// With adapters that requests choose, and that are changed while it runs, an
// engine's memory of conversations brings back rows that another adapter made.
// None of these is ever published: every page is that of prefill with the
// adapters of its namespace.
func TestRowsOfOtherAdaptersAreNotPublished(t *testing.T) {
	r := start(t, newStore(t), nil, "-c", "1024", "-np", "1", "--lora", enginetest.Adapter(t), "--lora-init-without-apply")
	adapted := func(prompt []int32) object { return with(greedy(prompt), "lora", []object{{"id": 0, "scale": 1}}) }
	asked, prompt := r.tokens("k", 600), r.tokens("l", 600)
	other := greedy(r.tokens("m", 100))
	r.ask(greedy(asked[:330]))
	for _, one := range [][]int32{asked, prompt} {
		r.ask(adapted(one[:330]))
		r.ask(other) // the engine remembers the one before
		got := r.ask(greedy(one))
		if len(r.stored(one)) == 0 && got.Timings.CacheTokens < 300 {
			t.Errorf("the engine does not remember what another adapter made: %+v", got.Timings)
		}
		r.isPrefilled(one)
	}
	changed := *r.worker.share.Load().Sharing
	changed.Namespace.Adapters = []string{"adapter * 1"}
	err := r.worker.Reshare(t.Context(), func() (*Sharing, error) {
		e := r.send(r.engine.HTTP, "http://engine/lora-adapters", []object{{"id": 0, "scale": 1}})
		if e.status != http.StatusOK {
			t.Errorf("%d %s", e.status, e.body)
		}
		return &changed, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(r.stored(prompt)); n > 0 {
		t.Fatalf("%d pages of a new namespace", n)
	}
	r.ask(other)
	r.ask(greedy(prompt))
	r.isPrefilled(prompt)
}

// isPrefilled holds the pages that a store has of a prompt against those that the
// engine computes.
func (r *running) isPrefilled(tokens []int32) {
	r.t.Helper()
	pages := r.stored(tokens)
	for i, page := range r.computedAnew(tokens, len(pages)) {
		if !bytes.Equal(page, pages[i]) {
			r.t.Errorf("page %d was made by another adapter", i)
		}
	}
}

// computedAnew are the first pages of a prompt as the engine computes them, with
// neither slots nor memory.
func (r *running) computedAnew(tokens []int32, n int) [][]byte {
	r.t.Helper()
	if n == 0 {
		return nil
	}
	body := object{"prompt": tokens[:n*PageTokens], "n_predict": 0, "cache_prompt": false, "id_slot": 0}
	if e := r.send(r.engine.HTTP, "http://engine/completion", body); e.status != http.StatusOK {
		r.t.Fatalf("%d %s", e.status, e.body)
	}
	defer r.fresh(0)
	const name = "computed-anew"
	if _, err := r.engine.Save(r.t.Context(), 0, name, n*PageTokens); err != nil {
		r.t.Fatal(err)
	}
	data := r.slotFile(name)
	file, err := slotfile.Parse(bytes.NewReader(data), int64(len(data)), n*PageTokens)
	if err != nil {
		r.t.Fatal(err)
	}
	pages := make([][]byte, n)
	for i := range pages {
		pages[i] = make([]byte, file.Sections[0].Shape.PageBytes(PageTokens))
		if err := file.Sections[0].ReadPage(pages[i], i, PageTokens); err != nil {
			r.t.Fatal(err)
		}
	}
	return pages
}

// drafted are figures that vary with what a draft model guesses.
var drafted = regexp.MustCompile(`"draft_n(_accepted)?":\d+,?`)

// With a draft model prompts are shared, and what is published is what prefill
// makes.
func TestDraftModel(t *testing.T) {
	programs, err := engine.Find()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, newStore(t), nil, "-c", "1024", "-np", "1", "--cache-ram", "0", "-md", programs.Model, "--spec-type", "draft-simple")
	body := object{"prompt": story(46, "otter"), "n_predict": 24, "temperature": 0, "grammar": `root ::= "one two three four five six seven eight nine ten eleven twelve"`}
	want := r.alone("/completion", body)
	for i, found := range []int{0, PageTokens} {
		got := r.through("/completion", body)
		if cached, _ := r.figures(got); cached != found {
			t.Errorf("request %d: %d tokens found, want %d", i, cached, found)
		}
		if got, want := drafted.ReplaceAllString(got.said(), ""), drafted.ReplaceAllString(want.said(), ""); got != want {
			t.Errorf("request %d: the answer is\n%s\nthe engine's is\n%s", i, got, want)
		}
		if !bytes.Contains(got.body, []byte(`"draft_n"`)) {
			t.Errorf("nothing was drafted: %s", got.body)
		}
	}
	tokens := r.promptTokens(body)
	pages := r.stored(tokens)
	for i, page := range r.computed(tokens, len(pages)) {
		if !bytes.Equal(page, pages[i]) {
			t.Errorf("page %d is not that of prefill", i)
		}
	}
}
