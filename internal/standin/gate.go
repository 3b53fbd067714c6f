package standin

import (
	"net/http"
	"strings"
	"sync/atomic"

	"ollamoon/internal/engine"
	"ollamoon/internal/prefill"
)

// What a llama-server answers itself, word for word.
const (
	loadingAnswer      = `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`
	unauthorizedAnswer = `{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`
	noActionsAnswer    = `{"error":{"code":501,"message":"This server does not support slots action. Start it with ` +
		"`--slot-save-path`" + `","type":"not_supported_error"}}`
)

// A gate decides which requests get through to the engine.
type gate struct {
	listener engine.Listener
	// actions says that clients may save, restore and erase slots.
	actions bool
	// direct passes requests on to the engine.
	direct http.Handler
	// own are the answers of this program itself, by their paths below the prefix.
	own map[string]http.Handler
	// prefill is what computes prompts for others; nil: nobody may ask.
	prefill atomic.Pointer[http.Handler]
	// tenants says that there are several; guard, unless it is nil, refuses requests
	// that are nobody's.
	tenants bool
	guard   func(*http.Request) error
	// open is what serves when the engine is ready; nil before.
	open atomic.Pointer[http.Handler]
}

// serve lets requests through, to h, from now on.
func (g *gate) serve(h http.Handler) { g.open.Store(&h) }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// What the engine does not send is not added.
	w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
	path, ours := strings.CutPrefix(r.URL.Path, g.listener.Prefix)
	own := g.own[path]
	switch open := g.open.Load(); {
	case ours && own != nil && r.Method == http.MethodGet:
		if !g.listener.Authorized(r) {
			answer(w, r, http.StatusUnauthorized, unauthorizedAnswer)
			return
		}
		own.ServeHTTP(w, r)
	case ours && path == prefill.Path && g.prefill.Load() != nil:
		(*g.prefill.Load()).ServeHTTP(w, r)
	case g.guard != nil && path != "/health" && g.guard(r) != nil:
		answer(w, r, http.StatusUnauthorized, unauthorizedAnswer)
	case ours && g.tenants && foreign(path):
		answer(w, r, http.StatusNotImplemented, noActionsAnswer)
	case open == nil && harmless(r):
		g.direct.ServeHTTP(w, r)
	case open == nil:
		answer(w, r, http.StatusServiceUnavailable, loadingAnswer)
	case ours && !g.actions && slotAction(r, path):
		if !g.listener.Authorized(r) {
			answer(w, r, http.StatusUnauthorized, unauthorizedAnswer)
			return
		}
		answer(w, r, http.StatusNotImplemented, noActionsAnswer)
	default:
		(*open).ServeHTTP(w, r)
	}
}

// harmless reports whether a request is one that a loading engine answers with
// something else than that it loads, and an engine that is being calibrated
// without computing: what a browser asks before it asks, and pages.
func harmless(r *http.Request) bool {
	return r.Method == http.MethodOptions ||
		r.Method == http.MethodGet && (r.URL.Path == "/" || strings.HasSuffix(r.URL.Path, ".html"))
}

// slotAction reports whether a request is one to save, restore or erase a slot.
func slotAction(r *http.Request, path string) bool {
	id, ok := strings.CutPrefix(path, "/slots/")
	return ok && r.Method == http.MethodPost && id != "" && !strings.Contains(id, "/")
}

// answer sends an error as the engine does.
func answer(w http.ResponseWriter, r *http.Request, status int, body string) {
	h := w.Header()
	h.Set("Server", "llama.cpp")
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the client may have gone
}
