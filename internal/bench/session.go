package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"

	"ollamoon/internal/results"
	"ollamoon/internal/supervise"
	"ollamoon/prefix"
)

// The contenders' names.
const (
	oursTCP    = "ours-tcp"
	oursShared = "ours-shm"
	python     = "python"
)

// A session is contenders that go through one scenario side by side.
type session struct {
	scenario   scenario
	random     *rand.Rand
	a, b       []int32 // the tokens of the two requests
	contenders []*contender
	limits     *limits // nil when they are not measured
	versions   map[string]string

	// What all contenders found alike, in pages.
	published, hit, extended int
}

// errUnexpected: the store did not do what a run relies on.
var errUnexpected = errors.New("unexpected outcome")

// open starts contenders and has them connect to the store.
func (r *run) open(ctx context.Context, s scenario, names ...string) (*session, error) {
	x := &session{scenario: s, random: r.random, versions: map[string]string{}}
	x.a, x.b = s.requests(r.random)
	for _, name := range names {
		if err := r.join(ctx, x, name); err != nil {
			x.close()
			return nil, err
		}
	}
	return x, nil
}

// join adds a contender to a session.
func (r *run) join(ctx context.Context, x *session, name string) error {
	command, o := r.Contender, r.opening(x.scenario, name)
	if name == oursShared {
		o.SharedMemory = r.cluster.Owner()
	}
	if name == python {
		command = supervise.Command{
			Path: r.cluster.Python(), Args: []string{filepath.Join(r.dir, "peer.py")},
			Env:      []string{"NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1", "MC_TCP_BIND_ADDRESS=127.0.0.1"},
			Loopback: r.cluster.Loopback(),
		}
	}
	c, err := startContender(ctx, name, r.dir, command)
	if err != nil {
		return err
	}
	x.contenders = append(x.contenders, c)
	c.keys = x.scenario.keys(name)
	got, err := c.call(ctx, call{Op: opOpen, Open: o})
	for part, version := range got.Versions {
		x.versions[part] = version
	}
	return err
}

func (r *run) opening(s scenario, name string) *opening {
	return &opening{
		Master: r.cluster.Master(), Metadata: r.cluster.Metadata(),
		Model: s.keys(name).Model, PageTokens: s.layout.PageTokens,
		Pages: s.pages(), SharedPages: s.sharedPages(),
		PageBytes: s.layout.Bytes(), ObjectBytes: s.objectBytes(r.Seal),
		Seal: r.Seal, Key: r.key,
	}
}

// close ends the contenders, and the limits' sender.
func (x *session) close() {
	for _, c := range x.contenders {
		c.stop()
	}
	if x.limits != nil {
		x.limits.close()
	}
}

// each calls do for all contenders, starting with another one each time.
func (x *session) each(turn int, do func(*contender) error) error {
	n := len(x.contenders)
	for i := range n {
		if err := do(x.contenders[(turn+i)%n]); err != nil {
			return err
		}
	}
	return nil
}

// ask has a contender do something with a request, and checks how many pages it
// was about.
func (x *session) ask(ctx context.Context, c *contender, op string, tokens []int32, pages int) (answer, error) {
	keys, err := keysOf(c.keys, tokens)
	if err != nil {
		return answer{}, err
	}
	got, err := c.call(ctx, call{Op: op, Tokens: tokens, Keys: keys})
	if err == nil && got.Pages != pages {
		err = fmt.Errorf("%s: %s: %w: %d pages, not %d", c.name, op, errUnexpected, got.Pages, pages)
	}
	return got, err
}

// publishRound publishes A's pages under keys that nobody has used, and removes
// them. It returns the time.
func (x *session) publishRound(ctx context.Context, c *contender) (float64, error) {
	fresh, _ := x.scenario.requests(x.random)
	got, err := x.ask(ctx, c, opPublish, fresh, x.scenario.pages())
	if err == nil {
		_, err = x.ask(ctx, c, opRemove, fresh, 0)
	}
	return got.MS, err
}

// publishA publishes request A for good.
func (x *session) publishA(ctx context.Context) error {
	return x.each(0, func(c *contender) error {
		got, err := x.ask(ctx, c, opPublish, x.a, x.scenario.pages())
		x.published = got.Pages
		return err
	})
}

// reload has a contender load what it can of request B.
func (x *session) reload(ctx context.Context, c *contender, pages int) (answer, error) {
	got, err := x.ask(ctx, c, opReload, x.b, pages)
	c.record.comparedBytes += int64(got.Pages) * int64(x.scenario.layout.Bytes())
	return got, err
}

// finishB publishes what B computed, and loads all of B.
func (x *session) finishB(ctx context.Context) error {
	return x.each(0, func(c *contender) error {
		got, err := x.ask(ctx, c, opExtend, x.b, x.scenario.pages()-x.scenario.sharedPages())
		x.extended = got.Pages
		if err == nil {
			_, err = x.reload(ctx, c, x.scenario.pages())
		}
		return err
	})
}

// leave has the contenders leave the store.
func (x *session) leave(ctx context.Context) error {
	return x.each(0, func(c *contender) error {
		got, err := c.call(ctx, call{Op: opClose})
		c.record.heldBytes = got.HeldBytes
		return err
	})
}

// results describes the scenario as this project's contenders saw it.
func (x *session) results(seal Seal) results.Scenario {
	s := x.scenario.outcome(seal, x.hit)
	s.Published, s.BPublished = x.published, x.extended
	for _, c := range x.contenders {
		if c.name != python {
			s.VerifiedBytes += c.record.comparedBytes
		}
	}
	s.Verified = s.VerifiedBytes > 0
	return s
}

func keysOf(config prefix.Config, tokens []int32) ([]string, error) {
	pages, err := config.Pages(tokens)
	if err != nil {
		return nil, err
	}
	keys := make([]string, len(pages))
	for i, p := range pages {
		keys[i] = p.Key
	}
	return keys, nil
}
