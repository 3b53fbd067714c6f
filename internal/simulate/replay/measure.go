package replay

import (
	"context"
	"fmt"
	"strconv"

	"ollamoon/internal/simulate"
)

const (
	// probeOutput is how many tokens answers have that costs are measured by.
	probeOutput = 16
	// probeTail is how many tokens a prompt has behind its pages.
	probeTail = 80
	// assumedLoad stands for what a single worker does not do, in bytes a second: what
	// is in the store, it has itself.
	assumedLoad = 1e9
)

// A measurement sums what workers took for prompts of a number of pages, which were
// computed or loaded.
type measurement struct {
	pages, pageTokens int
	tokenBytes        float64

	computed, generated, saved int     // tokens
	compute, generate          float64 // seconds, as all below
	save, publish              float64
	prompts                    int     // that were computed
	fixed                      float64 // what they took besides

	loaded        int // tokens
	load, restore float64
}

// probes is how many prompts measure asks for.
func (c *cluster) probes() int {
	if len(c.workers) == 1 {
		return 1
	}
	return 2 * len(c.workers)
}

// measure measures what work takes on a cluster, by prompts of about so many
// tokens of a run of their own. step is called after each.
func (c *cluster) measure(ctx context.Context, run uint64, tokens int, step func()) (simulate.Costs, error) {
	m := &measurement{pages: max(1, (tokens-probeTail)/c.pageTokens), pageTokens: c.pageTokens}
	p := prompts{run: run, blockTokens: c.pageTokens}
	for i, w := range c.workers {
		if err := m.computing(ctx, c, w, m.prompt(p, i, 0)); err != nil {
			return simulate.Costs{}, fmt.Errorf("measuring how %s computes: %w", w.id, err)
		}
		step()
		if len(c.workers) == 1 {
			break
		}
		other := c.workers[(i+1)%len(c.workers)]
		if err := m.loading(ctx, c, other, m.prompt(p, i, 1)); err != nil {
			return simulate.Costs{}, fmt.Errorf("measuring how %s loads: %w", other.id, err)
		}
		step()
	}
	costs := m.costs(c)
	if err := costs.Validate(); err != nil {
		return simulate.Costs{}, fmt.Errorf("measuring costs: %w", err)
	}
	return costs, nil
}

// prompt is the i-th prompt, or a variant of it with the same pages.
func (m *measurement) prompt(p prompts, i, variant int) []int32 {
	first := int64(i * (m.pages + 2))
	var tokens []int32
	for page := range m.pages {
		tokens = append(tokens, p.block(first+int64(page))...)
	}
	return append(tokens, p.block(first + int64(m.pages+variant))[:min(probeTail, m.pageTokens)]...)
}

// computing has a worker compute and publish a prompt.
func (m *measurement) computing(ctx context.Context, c *cluster, w member, tokens []int32) error {
	had, err := c.published(ctx)
	if err != nil {
		return err
	}
	before, err := c.phases(ctx, w)
	if err != nil {
		return err
	}
	a, err := c.ask(ctx, w.url, tokens, probeOutput, nil)
	if err != nil {
		return err
	}
	has, err := c.await(ctx, had+int64(m.pages))
	if err != nil {
		return err
	}
	if has-had < int64(m.pages) {
		return fmt.Errorf("%w: of a prompt of %d pages it has published %d; its log may say why", ErrCluster, m.pages, has-had)
	}
	after, err := c.phases(ctx, w)
	if err != nil {
		return err
	}
	status, err := c.status(ctx, w)
	if err != nil {
		return err
	}
	m.tokenBytes = float64(status.Pages.BytesPublished) / float64(status.Pages.Published) / float64(m.pageTokens)
	saved := after["save"] - before["save"]
	m.computed, m.compute = m.computed+a.computed, m.compute+a.prompt.Seconds()
	m.generated, m.generate = m.generated+a.generated, m.generate+a.generate.Seconds()
	for _, pages := range simulate.Steps(m.pages, m.pageTokens) {
		m.saved += pages * m.pageTokens
	}
	m.save += saved
	m.publish += after["publish"] - before["publish"]
	m.fixed += max(0, a.first.Seconds()-a.prompt.Seconds()-saved)
	m.prompts++
	return nil
}

// loading has a worker load what another has published.
func (m *measurement) loading(ctx context.Context, c *cluster, w member, tokens []int32) error {
	a, err := c.ask(ctx, w.url, tokens, probeOutput, nil)
	if err != nil {
		return err
	}
	if a.cached < m.pages*m.pageTokens || a.load == 0 || a.restore == 0 {
		return fmt.Errorf("%w: of a prompt of %d pages in the store it has loaded %d tokens; its log may say why", ErrCluster, m.pages, a.cached)
	}
	m.loaded += m.pages * m.pageTokens
	m.load += a.load.Seconds()
	m.restore += a.restore.Seconds()
	return nil
}

// costs is what was measured, of a token.
func (m *measurement) costs(c *cluster) simulate.Costs {
	rate := func(tokens int, seconds float64) float64 { return m.tokenBytes * float64(tokens) / seconds }
	costs := simulate.Costs{
		Name: "measured", Slots: c.slots, KVBytes: m.tokenBytes,
		Prefill: float64(m.computed) / m.compute, Decode: float64(m.generated) / m.generate,
		Publish: rate(m.pages*m.pageTokens*m.prompts, m.publish), Save: rate(m.saved, m.save),
		Lookup: m.fixed / float64(m.prompts),
		Load:   assumedLoad,
		Sources: []string{"Measured on the cluster just before, by prompts of " + strconv.Itoa(m.pages*m.pageTokens+probeTail) +
			" tokens; what a prompt takes besides computing and saving is in the lookup."},
	}
	if m.loaded > 0 {
		costs.Load, costs.Restore = rate(m.loaded, m.load), rate(m.loaded, m.restore)
	} else {
		costs.Sources = append(costs.Sources, "Loading is assumed: a single worker has what is in the store itself.")
	}
	return costs
}
