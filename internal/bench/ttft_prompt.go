package bench

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"ollamoon/internal/results"
	"ollamoon/internal/worker"
)

// A passage is two texts that begin alike: the publisher's, whose end leaves as
// much behind the shared pages as it takes to publish them, and the readers'.
type passage struct {
	published, read tokenized
	shared          []int32
}

type tokenized struct {
	text   string
	tokens []int32
}

// minTail is what the publisher has to compute behind pages for them to be
// published at once.
const minTail = 64

// attempts bounds how many stories are tried until one can be cut where it has to
// be, which is between two words.
const attempts = 50

// passage makes up a story that the readers get so many tokens of, which nobody
// has been asked before.
func (t *ttft) passage(ctx context.Context, n int, who string) (*passage, error) {
	shared := (n - 1) / worker.DefaultPageTokens * worker.DefaultPageTokens
	for attempt := range attempts {
		tokens, err := t.stock.tokenize(ctx, story(fmt.Sprintf("%s of house %d", who, attempt), n+minTail))
		if err != nil {
			return nil, err
		}
		p := &passage{shared: tokens[:shared]}
		published, err := t.cut(ctx, tokens[:shared+minTail], &p.published)
		if err != nil {
			return nil, err
		}
		read, err := t.cut(ctx, tokens[:n], &p.read)
		if err != nil {
			return nil, err
		}
		if published && read {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: no story can be cut at %d tokens", errUnexpected, n)
}

// cut makes a text of tokens and reports whether it has just these.
func (t *ttft) cut(ctx context.Context, tokens []int32, into *tokenized) (bool, error) {
	text, err := t.stock.detokenize(ctx, tokens)
	if err != nil {
		return false, err
	}
	again, err := t.stock.tokenize(ctx, text)
	*into = tokenized{text, tokens}
	return slices.Equal(again, tokens), err
}

// timings are those of one length of prompts.
type timings struct {
	cold, published, computed []float64 // computed is the published texts by the stock engine
	primed, tcp, file         []*completion
}

// prompt measures prompts of one length: in each round it computes a text anew,
// publishes it, and has it reused in turn.
func (t *ttft) prompt(ctx context.Context, n int) (results.Prompt, error) {
	const computing, reusing = 3, 3 // steps of a round, and of a turn
	step, end := t.Progress.stage(fmt.Sprintf("prompts of %d tokens", n), t.what.Rounds*(computing+reusing*t.what.Turns))
	defer end()
	var got timings
	var p *passage
	for round := range t.what.Rounds {
		var err error
		if p, err = t.passage(ctx, n, fmt.Sprintf("miller %d of %d", round, n)); err != nil {
			return results.Prompt{}, err
		}
		if err := t.compute(ctx, round, p, &got, step); err != nil {
			return results.Prompt{}, err
		}
		for turn := range t.what.Turns {
			if err := t.reuse(ctx, turn, p, &got, step); err != nil {
				return results.Prompt{}, err
			}
		}
		if err := t.pages.remove(ctx, p.shared); err != nil {
			return results.Prompt{}, err
		}
	}
	return got.results(p, t.pages.objectBytes)
}

// compute computes a round's text: on the stock engine and by the publisher, in
// an order that changes, and as the readers get it on the stock engine, whose
// slot holds it then.
func (t *ttft) compute(ctx context.Context, round int, p *passage, got *timings, step func()) error {
	stock := func() error {
		c, err := t.fresh(ctx, t.stock, p.published.text, 0)
		if err == nil {
			got.computed = append(got.computed, c.ttftMS)
			step()
		}
		return err
	}
	publish := func() error {
		c, err := t.publish(ctx, p)
		if err == nil {
			got.published = append(got.published, c.ttftMS)
			step()
		}
		return err
	}
	pair := []func() error{stock, publish}
	if round%2 == 1 {
		slices.Reverse(pair)
	}
	for _, half := range pair {
		if err := half(); err != nil {
			return err
		}
	}
	c, err := t.fresh(ctx, t.stock, p.read.text, 0)
	if err == nil {
		got.cold = append(got.cold, c.ttftMS)
		step()
	}
	return err
}

// publish has the publisher compute and publish a text, and returns when its
// pages are in both stores.
func (t *ttft) publish(ctx context.Context, p *passage) (*completion, error) {
	before, err := t.publisher.until(ctx, "its pages are counted", func(sharingStatus) bool { return true })
	if err != nil {
		return nil, err
	}
	c, err := t.fresh(ctx, t.publisher, p.published.text, 0)
	if err != nil {
		return nil, err
	}
	pages := int64(len(p.shared) / worker.DefaultPageTokens)
	after, err := t.publisher.until(ctx, "the pages are published", func(s sharingStatus) bool {
		return s.Pages.Published >= before.Pages.Published+pages
	})
	if err != nil {
		return nil, err
	}
	t.pages.objectBytes = int(after.Pages.BytesPublished / after.Pages.Published)
	return c, t.pages.copy(ctx, p.shared)
}

// fresh asks for one token after a text, with an empty slot, and makes sure of
// where the text's tokens came from: so many were cached.
func (t *ttft) fresh(ctx context.Context, l *llama, text string, cached int) (*completion, error) {
	if err := l.erase(ctx); err != nil {
		return nil, err
	}
	return t.first(ctx, l, text, cached)
}

// first asks for one token.
func (t *ttft) first(ctx context.Context, l *llama, text string, cached int) (*completion, error) {
	c, err := l.ask(ctx, question{prompt: text, tokens: 1, reuse: true})
	if err == nil && c.cached != cached {
		err = fmt.Errorf("%s: %w: %d tokens of a prompt were cached, not %d", l.name, errUnexpected, c.cached, cached)
	}
	return c, err
}

// reuse has a text reused by each server, in an order that changes.
func (t *ttft) reuse(ctx context.Context, turn int, p *passage, got *timings, step func()) error {
	ways := []struct {
		into *[]*completion
		do   func() (*completion, error)
	}{
		{&got.primed, func() (*completion, error) { return t.primed(ctx, p) }},
		{&got.tcp, func() (*completion, error) { return t.loaded(ctx, t.tcp, p) }},
		{&got.file, func() (*completion, error) { return t.loaded(ctx, t.file, p) }},
	}
	for i := range ways {
		way := ways[(turn+i)%len(ways)]
		c, err := way.do()
		if err != nil {
			return err
		}
		*way.into = append(*way.into, c)
		step()
	}
	return nil
}

// primed asks the stock engine, whose slot holds the text, when that holds just
// the shared tokens: a prompt of these cuts it there.
func (t *ttft) primed(ctx context.Context, p *passage) (*completion, error) {
	if _, err := t.stock.ask(ctx, question{prompt: p.shared, tokens: 0, reuse: true}); err != nil {
		return nil, err
	}
	return t.first(ctx, t.stock, p.read.text, len(p.shared))
}

// loaded asks a reader, whose slot is empty.
func (t *ttft) loaded(ctx context.Context, l *llama, p *passage) (*completion, error) {
	c, err := t.fresh(ctx, l, p.read.text, len(p.shared))
	if err == nil && c.source != fmt.Sprintf("store=%d", len(p.shared)) {
		err = fmt.Errorf("%s: %w: tokens came from %q, not %d from the store", l.name, errUnexpected, c.source, len(p.shared))
	}
	return c, err
}

// results sums up what was measured with texts such as p.
func (g *timings) results(p *passage, objectBytes int) (results.Prompt, error) {
	r := results.Prompt{
		Tokens: len(p.read.tokens), Shared: len(p.shared), Bytes: int64(len(p.shared) / worker.DefaultPageTokens * objectBytes),
		Cold: spread(g.cold), Primed: spread(ttfts(g.primed)), PrimedCompute: middle(g.primed).computeMS,
		Publishing: results.Publishing{
			Tokens: len(p.published.tokens), Cold: spread(g.computed), Publishing: spread(g.published),
			Added: median(each(g.published, g.computed, func(with, without float64) float64 { return with/without - 1 })),
		},
	}
	for _, way := range []struct {
		from []*completion
		into *results.Reuse
	}{{g.tcp, &r.TCP}, {g.file, &r.File}} {
		b, err := middle(way.from).breakdown()
		if err != nil {
			return r, err
		}
		s := spread(ttfts(way.from))
		*way.into = results.Reuse{TTFT: s, Breakdown: b, OfCold: r.Cold.P50 / s.P50, OfPrimed: s.P50 / r.Primed.P50}
	}
	return r, nil
}

func ttfts(from []*completion) []float64 {
	ms := make([]float64, len(from))
	for i, c := range from {
		ms[i] = c.ttftMS
	}
	return ms
}

// middle is the completion with the middle time to the first token, of two the
// quicker.
func middle(from []*completion) *completion {
	sorted := slices.SortedFunc(slices.Values(from), func(a, b *completion) int { return cmp.Compare(a.ttftMS, b.ttftMS) })
	return sorted[(len(sorted)-1)/2]
}

// each combines the figures of each turn.
func each(a, b []float64, combine func(a, b float64) float64) []float64 {
	all := make([]float64, len(a))
	for i := range a {
		all[i] = combine(a[i], b[i])
	}
	return all
}
