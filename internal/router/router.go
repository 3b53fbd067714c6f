package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Router is an HTTP handler in front of workers. Its owner closes it.
type Router struct {
	config  Config
	fleet   *fleet
	prober  *prober
	metrics *metrics
	copies  copies
	fresh   *http.Transport // never uses a connection twice
	own     http.Handler    // of what is about the router itself

	life   context.Context // of the health checks
	end    context.CancelFunc
	checks sync.WaitGroup
}

// New asks the workers what they are and returns a Router. It fails when those
// that can be reached do not fit together; others may come later. The health
// checks end with Close, not with ctx.
func New(ctx context.Context, c Config) (*Router, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	m := newMetrics()
	transport := newTransport(c)
	rt := &Router{
		config: c, metrics: m, fleet: newFleet(c, m),
		prober: &prober{config: c, client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}},
	}
	rt.fresh = newTransport(c)
	rt.fresh.DisableKeepAlives = true
	m.registry.MustRegister(gauges{rt.fleet})
	rt.own = rt.admin()
	rt.life, rt.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := rt.addAll(ctx); err != nil {
		rt.Close()
		return nil, err
	}
	return rt, nil
}

// addAll adds the workers that the settings name.
func (rt *Router) addAll(ctx context.Context) error {
	known := make([]*facts, len(rt.config.Workers))
	errs := make([]error, len(rt.config.Workers))
	var asked sync.WaitGroup
	for i, s := range rt.config.Workers {
		asked.Go(func() { known[i], errs[i] = rt.prober.check(ctx, s, true) })
	}
	asked.Wait()
	for i, s := range rt.config.Workers {
		if errors.Is(errs[i], ErrMismatch) {
			return fmt.Errorf("worker %s: %w", s.ID, errs[i])
		}
		if errs[i] != nil {
			rt.config.Logger.Warn("a worker is not ready", "worker", s.ID, "url", s.URL, "reason", errs[i])
		}
		if err := rt.join(s, known[i]); err != nil { //nolint:contextcheck // health checks end with Close
			return err
		}
	}
	return nil
}

// join adds a worker and begins to check its health.
func (rt *Router) join(s Spec, known *facts) error {
	ctx, stop := context.WithCancel(rt.life)
	w, err := rt.fleet.add(s, known, stop)
	if err != nil {
		stop()
		return err
	}
	rt.metrics.know(s.ID)
	rt.checks.Go(func() {
		defer stop()
		rt.fleet.watch(ctx, rt.prober, w)
	})
	return nil
}

// Close ends the health checks and lets nobody wait any more. Requests that run
// are the server's to end, before.
func (rt *Router) Close() {
	rt.fleet.close()
	rt.end()
	rt.checks.Wait()
	rt.prober.client.CloseIdleConnections()
}

// ServeHTTP serves a client's request.
func (rt *Router) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := newResponse(rw, rt.config.Stall)
	defer func() {
		if w.status != 0 {
			rt.metrics.answers.WithLabelValues(strconv.Itoa(w.status/100) + "xx").Inc()
		}
	}()
	if strings.HasPrefix(r.URL.Path, "/ollamoon/") {
		rt.own.ServeHTTP(w, r)
		return
	}
	tenant, ok := rt.config.Keys.tenant(r)
	if !ok && !rt.config.Surface.openTo(r) {
		rt.metrics.rejected.WithLabelValues("key").Inc()
		rt.fail(w, r, failure{status: http.StatusUnauthorized, kind: "authentication_error", message: "Invalid API Key"})
		return
	}
	t := rt.config.Surface.treat(r)
	switch t {
	case refuse:
		rt.metrics.rejected.WithLabelValues("refused").Inc()
		rt.fail(w, r, failure{
			status: http.StatusNotImplemented, kind: "not_supported_error",
			message: r.Method + " " + r.URL.Path + " changes one server, and this is a router over several; ask each of them itself",
		})
		return
	case health:
		rt.serveHealth(w, r)
		return
	}
	body, err := rt.readBody(w, r)
	if err != nil {
		return
	}
	c := newCall(rt.config.Surface, r, t, tenant, body)
	if t == merge {
		rt.serveMerged(w, r, c)
		return
	}
	rt.serve(w, r, c)
}

// readBody reads a request's body. When it returns an error the request has been
// answered.
func (rt *Router) readBody(w *response, r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	if r.ContentLength > rt.config.MaxBody {
		return nil, rt.tooLarge(w, r)
	}
	_ = w.control.SetReadDeadline(time.Now().Add(rt.config.BodyWait)) // a test's recorder has none
	limited := http.MaxBytesReader(w, r.Body, rt.config.MaxBody)
	data, err := readAll(limited, r.ContentLength)
	_ = w.control.SetReadDeadline(time.Time{})
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return nil, rt.tooLarge(w, r)
	}
	if err != nil {
		rt.fail(w, r, failure{status: http.StatusBadRequest, kind: "invalid_request_error", message: "reading the request: " + err.Error()})
	}
	return data, err
}

// readAll reads a body. Memory is taken as it comes, whatever length is said.
func readAll(body io.Reader, length int64) ([]byte, error) {
	var read bytes.Buffer
	read.Grow(int(min(max(length, 0), firstRead)) + bytes.MinRead)
	_, err := read.ReadFrom(body)
	return read.Bytes(), err
}

// firstRead is for how many bytes memory is taken before any have come.
const firstRead = 1 << 20

var errTooLarge = errors.New("the request is too large")

func (rt *Router) tooLarge(w *response, r *http.Request) error {
	rt.metrics.rejected.WithLabelValues("size").Inc()
	w.Header().Set("Connection", "close")
	rt.fail(w, r, failure{
		status: http.StatusRequestEntityTooLarge, kind: "invalid_request_error",
		message: fmt.Sprintf("%s: more than %d bytes", errTooLarge, rt.config.MaxBody),
	})
	return errTooLarge
}

// serveHealth answers for all workers: healthy as long as one is.
func (rt *Router) serveHealth(w *response, r *http.Request) {
	if len(rt.fleet.healthy()) > 0 {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"status":"ok"}`) // the client may have gone
		return
	}
	starting := slices.ContainsFunc(rt.fleet.status().Workers, func(s WorkerStatus) bool { return s.State == stateStarting })
	if starting {
		rt.fail(w, r, loading)
		return
	}
	rt.fail(w, r, unavailable(errNoWorker, rt.config.Interval))
}
