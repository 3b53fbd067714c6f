package bench

import (
	"context"
	"fmt"

	"ollamoon/internal/results"
	"ollamoon/internal/worker"
)

const (
	// shortTokens is a prompt that is shorter than a page.
	shortTokens = 16
	// requestsPerAnswer is how many requests for one token are made for each whole
	// answer: those take longer.
	requestsPerAnswer = 4
	// missTail is what is left to compute of a prompt whose pages are looked up.
	missTail = 13
)

// overhead measures what is added where nothing is shared.
func (t *ttft) overhead(ctx context.Context) (results.Overhead, error) {
	longest := t.what.Tokens[0]
	tokens, err := t.stock.tokenize(ctx, story("baker", longest))
	if err != nil {
		return results.Overhead{}, err
	}
	other, err := t.stock.tokenize(ctx, story("cooper", max(shortTokens, missTail)*(t.what.Requests+warmUps+1)))
	if err != nil {
		return results.Overhead{}, err
	}
	var o results.Overhead
	if o.Short, err = t.short(ctx, other); err != nil {
		return o, err
	}
	if o.Miss, err = t.miss(ctx, tokens[:longest-missTail], other); err != nil {
		return o, err
	}
	o.Decode, err = t.decode(ctx, other[:shortTokens])
	return o, err
}

// inTurn asks servers so many questions each, starting with another one each time,
// and returns what of measured each of them brought, without warm-ups.
func (t *ttft) inTurn(ctx context.Context, name string, requests int, servers []*llama, ask func(turn int) question, measured func(*llama, *completion) (float64, error)) ([][]float64, error) {
	turns := requests + warmUps
	step, end := t.Progress.stage(name, turns)
	defer end()
	got := make([][]float64, len(servers))
	for turn := range turns {
		for i := range servers {
			i = (i + turn) % len(servers)
			c, err := servers[i].ask(ctx, ask(turn))
			if err != nil {
				return nil, err
			}
			v, err := measured(servers[i], c)
			if err != nil {
				return nil, err
			}
			if turn >= warmUps {
				got[i] = append(got[i], v)
			}
		}
		step()
	}
	return got, nil
}

func added(with, without float64) float64 { return with - without }
func ratio(of, to float64) float64        { return of / to }

// short measures prompts shorter than a page.
func (t *ttft) short(ctx context.Context, tokens []int32) (results.Short, error) {
	got, err := t.inTurn(ctx, "prompts shorter than a page", t.what.Requests, []*llama{t.stock, t.none, t.tcp}, func(turn int) question {
		return question{prompt: tokens[turn*shortTokens:][:shortTokens], tokens: 1, reuse: true}
	}, func(_ *llama, c *completion) (float64, error) { return c.ttftMS, nil })
	if err != nil {
		return results.Short{}, err
	}
	stock, none, sharing := got[0], got[1], got[2]
	return results.Short{
		Tokens: shortTokens, Requests: len(stock), Stock: spread(stock), None: spread(none), Sharing: spread(sharing),
		NoneAdded: median(each(none, stock, added)), SharingAdded: median(each(sharing, stock, added)),
	}, nil
}

// miss measures lookups that miss: the slots hold most of a prompt, and the store
// has none of it.
func (t *ttft) miss(ctx context.Context, most, tails []int32) (results.Miss, error) {
	servers := []*llama{t.stock, t.tcp}
	for _, l := range servers {
		if _, err := l.ask(ctx, question{prompt: most, tokens: 1, reuse: true}); err != nil {
			return results.Miss{}, err
		}
	}
	counted := func(sharingStatus) bool { return true }
	before, err := t.tcp.until(ctx, "its pages are counted", counted)
	if err != nil {
		return results.Miss{}, err
	}
	got, err := t.inTurn(ctx, "lookups that miss", t.what.Requests, servers, func(turn int) question {
		return question{prompt: append(most[:len(most):len(most)], tails[turn*missTail:][:missTail]...), tokens: 1, reuse: true}
	}, func(l *llama, c *completion) (float64, error) {
		if c.computed > missTail {
			return 0, fmt.Errorf("%s: %w: %d tokens of a prompt were computed, not %d", l.name, errUnexpected, c.computed, missTail)
		}
		return c.ttftMS, nil
	})
	if err != nil {
		return results.Miss{}, err
	}
	after, err := t.tcp.until(ctx, "its pages are counted", counted)
	if err != nil {
		return results.Miss{}, err
	}
	pages := (len(most) + missTail - 1) / worker.DefaultPageTokens
	lookedUp, hit := after.Pages.LookedUp-before.Pages.LookedUp, after.Pages.Hit-before.Pages.Hit
	if want := int64((t.what.Requests + warmUps) * pages); lookedUp != want || hit != 0 {
		return results.Miss{}, fmt.Errorf("%s: %w: %d pages looked up, %d hit; not %d and none", t.tcp.name, errUnexpected, lookedUp, hit, want)
	}
	return results.Miss{
		Tokens: len(most) + missTail, Pages: pages, Requests: len(got[0]), Stock: spread(got[0]), Sharing: spread(got[1]),
		Added: median(each(got[1], got[0], added)),
	}, nil
}

// decode measures the speed of generating.
func (t *ttft) decode(ctx context.Context, prompt []int32) (results.Decode, error) {
	got, err := t.inTurn(ctx, "generating", max(1, t.what.Requests/requestsPerAnswer), []*llama{t.stock, t.none, t.tcp}, func(int) question {
		return question{prompt: prompt, tokens: t.what.Answer, reuse: true}
	}, func(_ *llama, c *completion) (float64, error) {
		return float64(t.what.Answer-1) / c.decodeMS * 1e3, nil
	})
	if err != nil {
		return results.Decode{}, err
	}
	stock, none, sharing := got[0], got[1], got[2]
	return results.Decode{
		Tokens: t.what.Answer, Requests: len(stock), Stock: median(stock), None: median(none), Sharing: median(sharing),
		NoneOfStock: median(each(none, stock, ratio)), SharingOfStock: median(each(sharing, stock, ratio)),
	}, nil
}
