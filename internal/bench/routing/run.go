package routing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"ollamoon/internal/supervise"
)

// Options say what to measure.
type Options struct {
	// Router is a command that runs ollamoon route with its last arguments, Worker
	// one that runs Work with its last.
	Router, Worker supervise.Command

	Rounds   int
	Pairs    int // of requests in each round
	Tokens   int // of each request's prompt
	Streams  int // that are held open
	Progress io.Writer
}

// ErrOptions is wrapped by the error for options that make no run.
var ErrOptions = errors.New("routing: bad options")

// Result is what was measured. Times are milliseconds.
type Result struct {
	Rounds  int `json:"rounds"`
	Pairs   int `json:"pairs"` // in each
	Tokens  int `json:"prompt_tokens"`
	Streams int `json:"idle_streams"`
	// Quiet is with nothing else going on, Beside with the idle streams open.
	Quiet  Latency `json:"quiet"`
	Beside Latency `json:"beside_idle_streams"`
	// Memory of the router that is resident, in bytes; 0 where the system does not
	// tell.
	StartBytes int64 `json:"start_bytes"` // after the first requests
	HeldBytes  int64 `json:"held_bytes"`  // with the idle streams open
	PeakBytes  int64 `json:"peak_bytes"`
}

// Latency is the time to the first byte: of each figure, the median of the rounds',
// so that what else the machine does in one of them does not count.
type Latency struct {
	Direct Quantiles `json:"direct"`
	Routed Quantiles `json:"routed"`
	// Added is of the differences within pairs.
	Added Quantiles `json:"added"`
}

// Quantiles of times.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

const (
	startWait   = 30 * time.Second
	requestWait = 30 * time.Second
	warmUps     = 100
	stopGrace   = 5 * time.Second
	settle      = time.Second // for connections to be idle
)

// A run is what its parts share.
type run struct {
	Options
	router         *supervise.Process
	direct, routed string // URLs
	client         *http.Client
	number         int // of the next conversation
}

// Run measures. It returns when all that it started has ended.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Rounds < 1 || o.Pairs < 1 || o.Tokens < 1 || o.Streams < 1 {
		return nil, fmt.Errorf("%w: rounds, pairs, tokens and streams are positive", ErrOptions)
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	r := &run{Options: o, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}}
	defer r.client.CloseIdleConnections()
	ports, err := supervise.FreePorts(ctx, 2)
	if err != nil {
		return nil, err
	}
	r.direct, r.routed = fmt.Sprintf("http://127.0.0.1:%d", ports[0]), fmt.Sprintf("http://127.0.0.1:%d", ports[1])
	worker, err := r.start(ctx, r.direct, o.Worker, strconv.Itoa(ports[0]))
	if err != nil {
		return nil, err
	}
	defer worker.Stop(stopGrace)
	if r.router, err = r.start(ctx, r.routed, o.Router, "--port", strconv.Itoa(ports[1]), r.direct); err != nil {
		return nil, err
	}
	defer r.router.Stop(stopGrace)
	result := &Result{Rounds: o.Rounds, Pairs: o.Pairs, Tokens: o.Tokens, Streams: o.Streams}
	if err := r.measure(ctx, result); err != nil {
		return nil, fmt.Errorf("%w; the router's last output:\n%s", err, r.router.Tail())
	}
	return result, nil
}

// start starts a process, and waits until it is healthy.
func (r *run) start(ctx context.Context, url string, c supervise.Command, args ...string) (*supervise.Process, error) {
	c.Args = append(slices.Clone(c.Args), args...)
	p, err := supervise.Start(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	err = p.Ready(ctx, 20*time.Millisecond, func(ctx context.Context) error {
		answer, err := r.send(ctx, http.MethodGet, url+"/health", "", "")
		if err != nil {
			return err
		}
		return answer.Close()
	})
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("starting %s: %w", strings.Join(c.Args, " "), err)
	}
	return p, nil
}

func (r *run) measure(ctx context.Context, result *Result) (err error) {
	if _, err = r.pairs(ctx, warmUps); err != nil {
		return err
	}
	if result.StartBytes, _, err = resident(r.router.PID()); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r.Progress, "%d rounds of %d pairs of requests\n", r.Rounds, r.Pairs)
	if result.Quiet, err = r.rounds(ctx); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r.Progress, "%d idle streams\n", r.Streams)
	held, err := r.hold(ctx)
	defer func() {
		for _, stream := range held {
			_ = stream.Close() // what is left of it does not matter
		}
	}()
	if err != nil {
		return err
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if result.HeldBytes, result.PeakBytes, err = resident(r.router.PID()); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(r.Progress, "%d rounds of %d pairs beside them\n", r.Rounds, r.Pairs)
	result.Beside, err = r.rounds(ctx)
	return err
}

func (r *run) rounds(ctx context.Context) (Latency, error) {
	rounds := make([]Latency, r.Rounds)
	for i := range rounds {
		var err error
		if rounds[i], err = r.pairs(ctx, r.Pairs); err != nil {
			return Latency{}, err
		}
	}
	of := func(part func(Latency) Quantiles) Quantiles {
		var p50, p99 []float64
		for _, l := range rounds {
			p50, p99 = append(p50, part(l).P50), append(p99, part(l).P99)
		}
		return Quantiles{P50: quantiles(p50).P50, P99: quantiles(p99).P50}
	}
	return Latency{
		Direct: of(func(l Latency) Quantiles { return l.Direct }),
		Routed: of(func(l Latency) Quantiles { return l.Routed }),
		Added:  of(func(l Latency) Quantiles { return l.Added }),
	}, nil
}

// pairs measures pairs of requests; which of the two comes first alternates. This
// process's own collector does not run meanwhile.
func (r *run) pairs(ctx context.Context, n int) (Latency, error) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var direct, routed, added []float64
	for i := range n {
		urls := []string{r.direct, r.routed}
		times := []float64{0, 0}
		body := prompt(r.number, r.Tokens)
		r.number++
		for _, at := range [][]int{{0, 1}, {1, 0}}[i%2] {
			var err error
			if times[at], err = r.firstByte(ctx, urls[at], body); err != nil {
				return Latency{}, err
			}
		}
		direct, routed, added = append(direct, times[0]), append(routed, times[1]), append(added, times[1]-times[0])
	}
	return Latency{Direct: quantiles(direct), Routed: quantiles(routed), Added: quantiles(added)}, nil
}

// firstByte is the time from a request to its answer's first byte.
func (r *run) firstByte(ctx context.Context, url, body string) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	began := time.Now()
	answer, err := r.send(ctx, http.MethodPost, url+completions, body, "")
	if err != nil {
		return 0, err
	}
	defer answer.Close()
	first := make([]byte, 1)
	if _, err := io.ReadFull(answer, first); err != nil {
		return 0, fmt.Errorf("reading the first byte: %w", err)
	}
	took := time.Since(began)
	rest, err := io.ReadAll(answer)
	if err != nil || !strings.HasSuffix(string(rest), "[DONE]\n\n") {
		return 0, fmt.Errorf("%w: it ends with %q, %w", errAnswer, rest, err)
	}
	return float64(took) / float64(time.Millisecond), nil
}

// hold opens streams by way of the router and reads the first event of each.
func (r *run) hold(ctx context.Context) ([]io.ReadCloser, error) {
	var held []io.ReadCloser
	for range r.Streams {
		body := prompt(r.number, r.Tokens)
		r.number++
		answer, err := r.send(ctx, http.MethodPost, r.routed+completions, body, "yes")
		if err != nil {
			return held, err
		}
		held = append(held, answer)
		if _, err := io.ReadFull(answer, make([]byte, len(event))); err != nil {
			return held, fmt.Errorf("reading the first event of stream %d: %w", len(held), err)
		}
	}
	return held, nil
}

// errAnswer: an answer is not what the worker has sent.
var errAnswer = errors.New("routing: unexpected answer")

func (r *run) send(ctx context.Context, method, url, body, hold string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set(holdHeader, hold)
	answer, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close() // the status is the error
		return nil, fmt.Errorf("%w: %s answers with status %d", errAnswer, url, answer.StatusCode)
	}
	return answer.Body, nil
}

func quantiles(times []float64) Quantiles {
	sorted := slices.Sorted(slices.Values(times))
	at := func(q float64) float64 { return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))] }
	return Quantiles{P50: at(0.5), P99: at(0.99)}
}
