package bench

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"ollamoon/internal/engine"
	"ollamoon/internal/results"
	"ollamoon/internal/supervise"
	"ollamoon/internal/worker"
	"ollamoon/page"
)

// EngineOptions say what is measured with a real model.
type EngineOptions struct {
	// Worker is a command that stands in for llama-server, whose arguments follow.
	Worker supervise.Command
	// Tokens is the length of each of two prompts; the first Shared are the same.
	Tokens, Shared int
}

// engineBytes of the segment are enough for the pages of a small model.
const engineBytes = 64 << 20

func (o *EngineOptions) validate() error {
	if o.Shared%worker.DefaultPageTokens != 0 || o.Shared < worker.DefaultPageTokens || o.Tokens <= o.Shared {
		return fmt.Errorf("%w: %d of %d tokens are shared; whole pages of %d must be", ErrOptions, o.Shared, o.Tokens, worker.DefaultPageTokens)
	}
	return nil
}

// A trial is three llama-servers with one model: a stock one, and two workers
// on the run's store.
type trial struct {
	*run
	programs      engine.Programs
	stock         *llama
	first, second *llama // the workers of request A and of request B
}

// measureEngine has the workers share a prompt's pages and compares them with
// the stock llama-server.
func (r *run) measureEngine(ctx context.Context, programs engine.Programs) (*results.Engine, error) {
	t := &trial{run: r, programs: programs}
	defer t.close()
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	a, b, err := t.prompts(ctx)
	if err != nil {
		return nil, err
	}
	return t.compare(ctx, a, b)
}

// start starts the servers, one after the other: each one measures something when it
// starts.
func (t *trial) start(ctx context.Context) error {
	step, end := t.Progress.stage("starting three llama-servers", 3)
	defer end()
	shared, err := t.sharing(t.programs, t.overTCP())
	if err != nil {
		return err
	}
	stock := supervise.Command{Path: t.programs.Binary}
	for _, s := range []struct {
		into    **llama
		name    string
		command supervise.Command
		args    []string
	}{
		{&t.stock, "llama-server", stock, []string{"--cache-ram", "0"}},
		{&t.first, "worker A", t.Engine.Worker, shared},
		{&t.second, "worker B", t.Engine.Worker, shared},
	} {
		if *s.into, err = startLlama(ctx, s.name, s.command, append(t.arguments(), s.args...)...); err != nil {
			return err
		}
		step()
	}
	for _, l := range []*llama{t.first, t.second} {
		if _, err := l.until(ctx, "prompts are shared", func(s sharingStatus) bool { return s.Sharing }); err != nil {
			return err
		}
	}
	return nil
}

// arguments of all servers. Only one works at a time, so it has all processors.
func (t *trial) arguments() []string {
	return []string{
		"-m", t.programs.Model, "-ngl", "0", "-np", "1", "-c", strconv.Itoa(2 * t.Engine.Tokens), "-t", strconv.Itoa(runtime.NumCPU()),
	}
}

// overTCP is the URL of the run's store, over TCP only.
func (r *run) overTCP() string {
	query := url.Values{"metadata": {r.cluster.Metadata()}, "shared_memory": {"off"}}
	return "mooncake://" + r.cluster.Master() + "?" + query.Encode()
}

// sharing returns the settings of workers that share through a store.
func (r *run) sharing(programs engine.Programs, store string) ([]string, error) {
	args := []string{"--ollamoon-binary", programs.Binary, "--ollamoon-store", store}
	if r.Seal != MAC {
		return args, nil
	}
	path := filepath.Join(r.dir, "seal.key")
	if err := os.WriteFile(path, []byte(hex.EncodeToString(r.key)), 0o600); err != nil {
		return nil, fmt.Errorf("writing the sealing key: %w", err)
	}
	return append(args, "--ollamoon-seal-key-file", path), nil
}

// prompts returns the tokens of the two requests.
func (t *trial) prompts(ctx context.Context) (a, b []int32, err error) {
	n, shared := t.Engine.Tokens, t.Engine.Shared
	if a, err = t.stock.tokenize(ctx, story("miller", n)); err != nil {
		return nil, nil, err
	}
	other, err := t.stock.tokenize(ctx, story("sailor", n))
	if err != nil {
		return nil, nil, err
	}
	if len(a) < n || len(other) < n {
		return nil, nil, fmt.Errorf("%w: stories of %d and %d tokens, not %d", errUnexpected, len(a), len(other), n)
	}
	a = a[:n]
	// The first own token of B differs from A's at its place.
	tail := other[:n]
	for len(tail) > n-shared && tail[0] == a[shared] {
		tail = tail[1:]
	}
	b = append(a[:shared:shared], tail[:n-shared]...)
	return a, b, nil
}

// story is a text of at least so many tokens, no two sentences of which are the
// same.
func story(who string, tokens int) string {
	places := []string{"the mill", "the harbour", "an old bridge", "the market", "a lighthouse", "the far meadow", "the chapel"}
	things := []string{"a letter", "two lanterns", "a bag of grain", "the broken clock", "a map", "some bread"}
	var s strings.Builder
	const least = 10 // tokens of a sentence
	for i := range tokens/least + 1 {
		fmt.Fprintf(&s, "On day %d the %s went to %s, carrying %s, and came back before it was dark. ",
			i+1, who, places[i%len(places)], things[i%len(things)])
	}
	return s.String()
}

// compare sends the requests, one at a time.
func (t *trial) compare(ctx context.Context, a, b []int32) (*results.Engine, error) {
	step, end := t.Progress.stage("prompts of a model", 4)
	defer end()
	pages := int64(t.Engine.Shared / worker.DefaultPageTokens)
	ofA, err := t.first.complete(ctx, a, true)
	if err != nil {
		return nil, err
	}
	published, err := t.first.until(ctx, "A's pages are published", func(s sharingStatus) bool { return s.Pages.Published >= pages })
	if err != nil {
		return nil, err
	}
	step()
	coldA, err := t.stock.complete(ctx, a, false)
	if err != nil {
		return nil, err
	}
	step()
	coldB, err := t.stock.complete(ctx, b, false)
	if err != nil {
		return nil, err
	}
	step()
	ofB, err := t.second.complete(ctx, b, true)
	if err != nil {
		return nil, err
	}
	loaded, err := t.second.until(ctx, "its pages are counted", func(sharingStatus) bool { return true })
	if err != nil {
		return nil, err
	}
	step()
	if ofB.cached != t.Engine.Shared || loaded.Pages.Hit != pages || coldB.cached != 0 {
		return nil, fmt.Errorf("%s: %w: %d pages loaded, %d tokens skipped, not %d and %d; %d tokens cached by %s",
			t.second.name, errUnexpected, loaded.Pages.Hit, ofB.cached, pages, t.Engine.Shared, coldB.cached, t.stock.name)
	}
	e := &results.Engine{
		Model: filepath.Base(t.programs.Model), PromptTokens: len(b), TokensSkipped: ofB.cached,
		PageTokens: worker.DefaultPageTokens, PageBytes: loaded.Pages.BytesLoaded/loaded.Pages.Hit - page.TrailerBytes,
		PublishedPages: published.Pages.Published, PagesLoaded: loaded.Pages.Hit,
		TTFTComputedMS: coldB.ttftMS, TTFTReusedMS: ofB.ttftMS, TTFTPublishingMS: ofA.ttftMS,
		AnswersEqual: ofA.equals(coldA) && ofB.equals(coldB), GeneratedTokens: answerTokens,
	}
	return e, t.complete(ctx, e, ofB)
}

// complete adds what an answer says of itself, and which engine it was.
func (t *trial) complete(ctx context.Context, e *results.Engine, ofB *completion) (err error) {
	if e.Build, err = t.stock.build(ctx); err != nil {
		return err
	}
	if e.Probabilities, err = ofB.count(); err != nil {
		return err
	}
	e.Breakdown, err = ofB.breakdown()
	return err
}

// close ends the servers.
func (t *trial) close() {
	for _, l := range []*llama{t.first, t.second, t.stock} {
		if l != nil {
			l.stop()
		}
	}
}
