package router

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Why a request is not served.
var (
	errBusy     = errors.New("all workers are busy and the queue is full; try again later")
	errWaited   = errors.New("all workers are busy, and none became free in time; try again later")
	errNoWorker = errors.New("no worker is healthy; try again later")
	errClosing  = errors.New("the router is ending")
	errEjected  = errors.New("the worker has been taken out")
	errBroken   = errors.New("the worker that generated this answer has failed; ask again")
)

// A failure is an answer of the router's own.
type failure struct {
	status  int
	kind    string // llama-server's word for it
	message string
	retry   time.Duration // when to try again; 0: no word of it
}

func unavailable(err error, retry time.Duration) failure {
	return failure{status: http.StatusServiceUnavailable, kind: "unavailable_error", message: err.Error(), retry: max(retry, time.Second)}
}

// loading is what a llama-server says that is not ready.
var loading = failure{status: http.StatusServiceUnavailable, kind: "unavailable_error", message: "Loading model", retry: time.Second}

// body is the failure in the form of a surface's path.
func (f failure) body(s Surface, path string) []byte {
	var value any
	switch {
	case path == "/v1/messages":
		value = map[string]any{"type": "error", "error": map[string]string{"type": f.kind, "message": f.message}}
	case s == Llama:
		value = map[string]any{"error": map[string]any{"code": f.status, "message": f.message, "type": f.kind}}
	case strings.HasPrefix(path, "/v1/"):
		value = map[string]any{"error": map[string]any{"message": f.message, "type": f.kind, "param": nil, "code": nil}}
	default:
		value = map[string]string{"error": f.message}
	}
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings and numbers
	}
	return data
}

// fail answers with a failure.
func (rt *Router) fail(w http.ResponseWriter, r *http.Request, f failure) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	if f.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int((f.retry+time.Second-1)/time.Second)))
	}
	w.WriteHeader(f.status)
	_, _ = w.Write(f.body(rt.config.Surface, r.URL.Path)) //nolint:gosec // JSON, and said to be; the client may have gone
}
