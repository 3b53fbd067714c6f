package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"ollamoon/internal/engine"
)

// A load is two workers under way, and what their clients see.
type load struct {
	ApartOptions
	apart   bool
	workers [2]*llama // the second one answers in the apart way; both in the mixed way
	prompts [][]int32

	mu struct {
		sync.Mutex
		gaps   []float64 // ms
		tokens int       // of the streams
		err    error
	}
}

// measure measures one way once.
func (o *ApartOptions) measure(ctx context.Context, programs engine.Programs, apart bool, round int) (Way, error) {
	folder, err := os.MkdirTemp("", "ollamoon-apart-")
	if err != nil {
		return Way{}, fmt.Errorf("making a folder for pages: %w", err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // for temporary files
	l := &load{ApartOptions: *o, apart: apart}
	defer l.stop()
	if err := l.start(ctx, programs, "file:"+folder, round); err != nil {
		return Way{}, err
	}
	return l.run(ctx)
}

// start starts the workers. Each has a thread, and slots for all streams and a
// long prompt, since a worker that answers may have them all.
func (l *load) start(ctx context.Context, programs engine.Programs, store string, round int) error {
	slots := l.Streams + 1
	context := slices.Max(l.Prompts) + streamTokens
	args := []string{
		"-m", programs.Model, "-ngl", "0", "-t", "1", "-np", strconv.Itoa(slots), "-no-kvu", "-c", strconv.Itoa(slots * context), "-b", strconv.Itoa(l.Batch), "-ub", strconv.Itoa(l.Batch),
		"--cache-ram", "0", "--ollamoon-binary", programs.Binary, "--ollamoon-store", store,
	}
	first, second := []string{}, []string{}
	if l.apart {
		first = []string{"--ollamoon-role", "prefill"}
	}
	var err error
	if l.workers[0], err = startLlama(ctx, "worker A", l.Worker, append(slices.Clone(args), first...)...); err != nil {
		return err
	}
	if l.apart {
		second = []string{"--ollamoon-role", "decode", "--ollamoon-prefill", l.workers[0].url}
	}
	if l.workers[1], err = startLlama(ctx, "worker B", l.Worker, append(slices.Clone(args), second...)...); err != nil {
		return err
	}
	for _, w := range l.workers {
		if _, err := w.until(ctx, "prompts are shared", func(s sharingStatus) bool { return s.Sharing }); err != nil {
			return err
		}
	}
	for i, n := range l.Prompts {
		tokens, err := l.workers[1].tokenize(ctx, story(fmt.Sprintf("rider %d of round %d", i, round), n))
		if err != nil {
			return err
		}
		if len(tokens) < n {
			return fmt.Errorf("%w: a story of %d tokens, not %d", errUnexpected, len(tokens), n)
		}
		// Their beginnings must differ, or else they share pages.
		l.prompts = append(l.prompts, append([]int32{tokens[i+1]}, tokens[1:n]...))
	}
	return nil
}

func (l *load) stop() {
	for _, w := range l.workers {
		if w != nil {
			w.stop()
		}
	}
}

// answering is the worker that answers the n-th client.
func (l *load) answering(n int) *llama {
	if l.apart {
		return l.workers[1]
	}
	return l.workers[n%len(l.workers)]
}

// streamTokens is the most that a stream generates before it begins again.
const streamTokens = 512

// run lets streams run while the long prompts arrive.
func (l *load) run(ctx context.Context) (Way, error) {
	ctx, cancel := context.WithCancel(ctx)
	var streams sync.WaitGroup
	defer streams.Wait()
	defer cancel()
	for n := range l.Streams {
		streams.Go(func() { l.stream(ctx, n) })
	}
	if err := l.streaming(ctx); err != nil {
		return Way{}, err
	}
	begin := time.Now()
	var ttft []float64
	way := Way{}
	prompts := 0
	for n, prompt := range l.prompts {
		c, err := l.answering(n).ask(ctx, question{prompt: prompt, tokens: 4, reuse: true})
		if err != nil {
			return Way{}, err
		}
		ttft = append(ttft, c.ttftMS)
		way.Elsewhere += c.cached
		prompts += len(prompt)
	}
	took := time.Since(begin).Seconds()
	cancel()
	streams.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err != nil {
		return Way{}, l.mu.err
	}
	if len(l.mu.gaps) == 0 {
		return Way{}, fmt.Errorf("%w: no stream had two tokens", errUnexpected)
	}
	slices.Sort(l.mu.gaps)
	way.GapP50MS, way.GapP99MS, way.GapMaxMS = at(l.mu.gaps, 0.5), at(l.mu.gaps, 0.99), at(l.mu.gaps, 1)
	way.Gaps = len(l.mu.gaps)
	all, stalled := 0.0, 0.0
	for _, gap := range l.mu.gaps {
		all += gap
		if gap > float64(stall/time.Millisecond) {
			stalled += gap
		}
	}
	way.Stalled = stalled / all
	way.StreamTokensPerSecond = float64(l.mu.tokens) / took
	way.TokensPerSecond = float64(prompts+l.mu.tokens) / took
	way.TTFTMS = median(ttft)
	return way, nil
}

// at is a quantile of sorted values, that of the nearest rank.
func at(sorted []float64, quantile float64) float64 {
	return sorted[min(len(sorted)-1, int(quantile*float64(len(sorted))))]
}

// streaming waits until each stream has had a token, and forgets what they had.
func (l *load) streaming(ctx context.Context) error {
	for deadline := time.Now().Add(modelTimeout); ; {
		l.mu.Lock()
		tokens, err := l.mu.tokens, l.mu.err
		if tokens >= 4*l.Streams {
			l.mu.tokens, l.mu.gaps = 0, nil
		}
		l.mu.Unlock()
		switch {
		case err != nil:
			return err
		case tokens >= 4*l.Streams:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: no tokens of %d streams in %v", errUnexpected, l.Streams, modelTimeout)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stream has a worker generate until the context ends, and notes the time of each
// token.
func (l *load) stream(ctx context.Context, n int) {
	for ctx.Err() == nil {
		if err := l.generate(ctx, n); err != nil && ctx.Err() == nil {
			l.mu.Lock()
			l.mu.err = errors.Join(l.mu.err, err)
			l.mu.Unlock()
			return
		}
	}
}

func (l *load) generate(ctx context.Context, n int) error {
	w := l.answering(n)
	response, err := w.send(ctx, http.MethodPost, "/completion", map[string]any{
		"prompt": fmt.Sprintf("The story of number %d begins so: ", n), "n_predict": streamTokens - 64, "ignore_eos": true, "temperature": 0, "stream": true,
	})
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxAnswer)
	var last time.Time
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte("data: ")) {
			continue
		}
		now := time.Now()
		l.mu.Lock()
		l.mu.tokens++
		if !last.IsZero() {
			l.mu.gaps = append(l.mu.gaps, float64(now.Sub(last))/float64(time.Millisecond))
		}
		l.mu.Unlock()
		last = now
	}
	return lines.Err()
}

// middleWay is the round with the median p99; ways are not empty.
func middleWay(ways []Way) Way {
	sorted := slices.SortedFunc(slices.Values(ways), func(a, b Way) int {
		switch {
		case a.GapP99MS < b.GapP99MS:
			return -1
		case a.GapP99MS > b.GapP99MS:
			return 1
		}
		return 0
	})
	return sorted[len(sorted)/2]
}
