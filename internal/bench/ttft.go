package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"ollamoon/internal/engine"
	"ollamoon/internal/results"
	"ollamoon/internal/supervise"
	"ollamoon/internal/worker"
	"ollamoon/page"
)

// TTFTOptions say what times to the first token are measured.
type TTFTOptions struct {
	// Worker is a command that stands in for llama-server, whose arguments follow.
	Worker supervise.Command
	// Tokens are the prompts' lengths. All whole pages of a prompt are shared, of
	// which the last ends before its last token.
	Tokens []int
	// Rounds is how often a prompt of each length is computed and published, Turns
	// how often each is reused in a round.
	Rounds, Turns int
	// Requests is how often small costs are measured, and a quarter of it the speed
	// of answers.
	Requests int
	// Answer is the length of the answers whose speed is measured, in tokens.
	Answer int
	// Prefill are speeds of prefill to find where loading breaks even, in tokens a
	// second.
	Prefill []float64
}

func (o *TTFTOptions) validate() error {
	if len(o.Tokens) == 0 || slices.Min(o.Tokens) <= worker.DefaultPageTokens {
		return fmt.Errorf("%w: prompts of %v tokens; each must have more than a page's %d", ErrOptions, o.Tokens, worker.DefaultPageTokens)
	}
	if o.Rounds < 1 || o.Turns < 1 || o.Requests < 1 || o.Answer < 2 {
		return fmt.Errorf("%w: %d rounds, %d turns, %d requests, answers of %d tokens; all must be positive, and an answer has two",
			ErrOptions, o.Rounds, o.Turns, o.Requests, o.Answer)
	}
	for _, speed := range o.Prefill {
		if speed <= 0 {
			return fmt.Errorf("%w: prefill of %g tokens a second", ErrOptions, speed)
		}
	}
	return nil
}

// longest is the length of the longest prompt.
func (o *TTFTOptions) longest() int { return slices.Max(o.Tokens) }

// A ttft is a measurement of times to the first token: its servers have one model,
// and one of them works at a time.
type ttft struct {
	*run
	what     TTFTOptions
	programs engine.Programs
	slots    string // folder for slot files

	stock     *llama // without Ollamoon
	none      *llama // a stand-in without a store
	publisher *llama
	tcp, file *llama // load what others published, from Mooncake and from a folder

	pages shelf
}

// RunTTFT measures times to the first token. Of o it takes where the store is to
// come from, the seal and what describes the run. It returns when all that it
// started has ended.
func RunTTFT(ctx context.Context, o Options, what TTFTOptions) (*results.TTFT, error) {
	if err := what.validate(); err != nil {
		return nil, err
	}
	what.Tokens = slices.Sorted(slices.Values(what.Tokens))
	programs, err := engine.Find()
	if err != nil {
		return nil, err
	}
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	defer r.remove()
	host, err := ThisHost(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.startCluster(ctx); err != nil {
		return nil, err
	}
	defer r.cluster.Close()
	t := &ttft{run: r, what: what, programs: programs}
	defer t.close()
	if err := t.start(ctx); err != nil {
		return nil, err
	}
	f, err := t.measure(ctx)
	if err != nil {
		return nil, err
	}
	f.SchemaVersion, f.Command, f.Host, f.GeneratedAt = 1, o.Command, host, time.Now().Truncate(time.Second)
	f.BreakEven = breakEven(f, what.Prefill)
	f.Goals = ttftGoals(f)
	return f, nil
}

// measure measures everything, and assembles it.
func (t *ttft) measure(ctx context.Context) (*results.TTFT, error) {
	build, err := t.stock.build(ctx)
	if err != nil {
		return nil, err
	}
	mooncake, err := t.wheel(ctx)
	if err != nil {
		return nil, err
	}
	f := &results.TTFT{Versions: map[string]string{
		"ollamoon": t.Version, "go": runtime.Version(), "mooncake": mooncake, "llama": build,
	}}
	if f.Overhead, err = t.overhead(ctx); err != nil {
		return nil, err
	}
	for _, n := range t.what.Tokens {
		p, err := t.prompt(ctx, n)
		if err != nil {
			return nil, err
		}
		f.Prompts = append(f.Prompts, p)
	}
	if f.Memory, err = t.memory(); err != nil {
		return nil, err
	}
	f.Memory.Tokens = t.what.longest()
	inFlight := f.Prompts[len(f.Prompts)-1].Bytes
	f.Memory.Publisher.InFlightBytes, f.Memory.Loader.InFlightBytes = inFlight, inFlight
	f.Model = results.Model{
		Name: filepath.Base(t.programs.Model), Threads: runtime.NumCPU(), PageTokens: worker.DefaultPageTokens,
		TokenBytes: (int64(t.pages.objectBytes) - page.TrailerBytes) / worker.DefaultPageTokens,
	}
	return f, nil
}
