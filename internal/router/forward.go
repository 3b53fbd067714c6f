package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"sync"
	"time"

	"ollamoon/internal/trust"
)

// errStatus: a worker has answered with a status that says that another may do
// better.
var errStatus = errors.New("the worker is not ready")

// copies are buffers for bytes that pass through: small, as many streams are open
// at the same time and idle.
type copies struct{ pool sync.Pool }

const copyBytes = 2 << 10

func (c *copies) Get() []byte {
	if b, ok := c.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, copyBytes)
}

func (c *copies) Put(b []byte) { c.pool.Put(&b) }

// newTransport returns the connections to workers.
func newTransport(c Config) *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: c.Timeout, KeepAlive: 15 * time.Second}).DialContext,
		DisableCompression:  true, // bytes pass through as they are
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		ReadBufferSize:      copyBytes,
		WriteBufferSize:     copyBytes,
	}
}

// serve has a worker answer a call: another one when the first fails before
// anything has been sent to the client.
func (rt *Router) serve(w *response, r *http.Request, c *call) {
	tried, broken := map[*worker]bool{}, 0
	for {
		err := rt.attempt(w, r, c, tried)
		if errors.Is(err, errFell) {
			broken++
		}
		switch {
		case err == nil || w.status != 0:
			return
		case r.Context().Err() != nil:
			rt.metrics.rejected.WithLabelValues("gone").Inc()
			return // nobody is there to be told
		case !errors.Is(err, errAgain):
			rt.refuse(w, r, err)
			return
		case broken >= maxBroken || !rt.fleet.another(c, tried):
			rt.fail(w, r, failure{status: http.StatusBadGateway, kind: "server_error", message: "no worker could answer: " + errors.Unwrap(err).Error()})
			return
		}
		rt.metrics.retries.Inc()
	}
}

// refuse answers a call that no worker was found for.
func (rt *Router) refuse(w *response, r *http.Request, err error) {
	switch {
	case errors.Is(err, errNoModel):
		rt.metrics.rejected.WithLabelValues("model").Inc()
		rt.fail(w, r, failure{status: http.StatusNotFound, kind: "not_found_error", message: err.Error()})
	case errors.Is(err, errNoWorker):
		rt.metrics.rejected.WithLabelValues("unhealthy").Inc()
		rt.fail(w, r, unavailable(err, rt.config.Interval))
	case errors.Is(err, errClosing):
		rt.metrics.rejected.WithLabelValues("closing").Inc()
		rt.fail(w, r, unavailable(err, rt.config.Interval))
	default:
		rt.metrics.rejected.WithLabelValues("busy").Inc()
		rt.fail(w, r, unavailable(err, rt.fleet.retryAfter()))
	}
}

// maxBroken is how many workers may fall over one request: it may be what makes
// them.
const maxBroken = 2

// An againError is a worker's failure after which another may be asked.
type againError struct {
	err  error
	fell bool // the worker had the request and did not answer
}

var (
	// errAgain matches every againError, errFell those of workers that have fallen.
	errAgain = errors.New("another worker may be asked")
	errFell  = errors.New("the worker has fallen")
)

func (e *againError) Error() string { return e.err.Error() }
func (e *againError) Unwrap() error { return e.err }
func (e *againError) Is(target error) bool {
	return target == errAgain || target == errFell && e.fell
}

// attempt has one worker answer.
func (rt *Router) attempt(w *response, r *http.Request, c *call, tried map[*worker]bool) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	l, err := rt.lease(ctx, cancel, c, tried)
	if err != nil {
		return err
	}
	defer l.end()
	if c.treatment == work {
		rt.metrics.queued.Observe(time.Since(w.arrived).Seconds())
	}
	tried[l.worker] = true
	fell, failed := rt.passOn(ctx, w, r, c, l, tried)
	if failed == nil || r.Context().Err() != nil {
		return nil
	}
	failed = causeOf(ctx, failed)
	rt.metrics.failures.WithLabelValues(l.worker.spec.ID).Inc()
	rt.config.Logger.Warn("a worker failed a request", "worker", l.worker.spec.ID, "path", r.URL.Path, "error", failed)
	var dial *net.OpError
	if errors.As(failed, &dial) && dial.Op == "dial" {
		rt.fleet.failed(l.worker, failed)
		return &againError{err: failed, fell: fell}
	}
	rt.fleet.doubt(l.worker)
	return &againError{err: failed, fell: fell}
}

func (rt *Router) lease(ctx context.Context, cancel context.CancelCauseFunc, c *call, tried map[*worker]bool) (*lease, error) {
	if c.treatment == work {
		return rt.fleet.acquire(ctx, cancel, c, tried)
	}
	return rt.fleet.pick(cancel, c, tried)
}

// passOn hands a call to a worker and its answer to the client. It returns an error
// only when nothing has been sent; fell says that the worker had the call then. A
// connection that has been used may have been closed by the worker meanwhile: after
// a failure on one, the worker is asked once more on a new one.
func (rt *Router) passOn(ctx context.Context, w *response, r *http.Request, c *call, l *lease, tried map[*worker]bool) (fell bool, failed error) {
	reused := false
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) { fell, reused = true, got.Reused },
	})
	failed = rt.pass(traced, w, r, c, l, tried, rt.prober.client.Transport)
	if failed != nil && reused && ctx.Err() == nil && !errors.Is(failed, errStatus) {
		failed = rt.pass(ctx, w, r, c, l, tried, rt.fresh)
	}
	return fell && !errors.Is(failed, errStatus), failed
}

// pass is passOn over connections of one kind.
func (rt *Router) pass(ctx context.Context, w *response, r *http.Request, c *call, l *lease, tried map[*worker]bool, over http.RoundTripper) error {
	var failed error
	var stream *answer
	var first time.Time
	defer func() {
		if stream != nil && c.treatment == work {
			rt.learn(l, stream, first)
		}
	}()
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(l.worker.spec.URL)
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			p.Out.Body, p.Out.ContentLength = http.NoBody, int64(len(c.body))
			if len(c.body) > 0 {
				p.Out.Body = &outgoing{left: c.body}
			}
			trust.Strip(p.Out.Header)
			if rt.config.Keys != nil { // they are the router's
				p.Out.Header.Del("Authorization")
				p.Out.Header.Del("X-Api-Key")
			}
			rt.prober.authenticate(p.Out, c.tenant)
		},
		Transport:     over,
		FlushInterval: -1,
		BufferPool:    &rt.copies,
		ErrorLog:      slog.NewLogLogger(rt.config.Logger.Handler(), slog.LevelDebug),
		ModifyResponse: func(answered *http.Response) error {
			if retriable(answered.StatusCode) && rt.fleet.another(c, tried) {
				return fmt.Errorf("%w: status %d", errStatus, answered.StatusCode)
			}
			first = time.Now()
			c.body = nil // nobody else will be asked
			stream = rt.follow(ctx, answered, r, l)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failed = err },
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
	return failed
}

// outgoing is a request's body on its way. What has gone is not held any longer: an
// answer may go on for long.
type outgoing struct{ left []byte }

func (o *outgoing) Read(p []byte) (int, error) {
	n := copy(p, o.left)
	if o.left = o.left[n:]; len(o.left) == 0 {
		o.left = nil
		return n, io.EOF
	}
	return n, nil
}

func (o *outgoing) Close() error { return nil }

// retriable reports whether a status says that this worker, and not the request,
// is at fault.
func retriable(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// follow watches an answer go by. It returns the stream that the answer is, or nil.
func (rt *Router) follow(ctx context.Context, answered *http.Response, r *http.Request, l *lease) *answer {
	l.answering()
	l.came.Store(time.Now().UnixNano())
	f := rt.config.Surface.format(answered.Header)
	if f == nil {
		return nil
	}
	body := &answer{ReadCloser: answered.Body, format: f, path: r.URL.Path, came: &l.came}
	body.broken = func(err error) {
		if r.Context().Err() != nil {
			return // the client has gone
		}
		rt.metrics.failures.WithLabelValues(l.worker.spec.ID).Inc()
		rt.config.Logger.Warn("a worker broke a stream off", "worker", l.worker.spec.ID, "path", r.URL.Path, "error", causeOf(ctx, err))
		rt.fleet.doubt(l.worker)
	}
	answered.Body = body
	return body
}

// learn learns from a stream that is over.
func (rt *Router) learn(l *lease, stream *answer, first time.Time) {
	rt.metrics.firstByte.Observe(first.Sub(l.began).Seconds())
	if l.learns {
		rt.fleet.costs.prompt(l.computes, first.Sub(l.began))
	}
	if stream.terminal {
		rt.fleet.costs.answer(stream.parts, time.Since(first))
	}
}
