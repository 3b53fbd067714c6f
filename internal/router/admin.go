package router

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
)

// maxAdminBody bounds what describes a worker.
const maxAdminBody = 64 << 10

// admin serves what is about the router itself.
func (rt *Router) admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ollamoon/status", rt.seen(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, rt.fleet.status())
	}))
	mux.HandleFunc("GET /ollamoon/metrics", rt.seen(rt.metrics.handler().ServeHTTP))
	mux.HandleFunc("GET /ollamoon/workers", rt.changing(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, rt.fleet.status().Workers)
	}))
	mux.HandleFunc("POST /ollamoon/workers", rt.changing(rt.addWorker))
	mux.HandleFunc("DELETE /ollamoon/workers/{id}", rt.changing(rt.removeWorker))
	return mux
}

// seen guards what shows: with API keys it needs the token, as it tells of all
// tenants.
func (rt *Router) seen(h http.HandlerFunc) http.HandlerFunc {
	if rt.config.Keys == nil {
		return h
	}
	return rt.withToken(h)
}

// changing guards what changes the router: it needs the token, and comes from
// this machine.
func (rt *Router) changing(h http.HandlerFunc) http.HandlerFunc {
	return rt.withToken(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
			adminError(w, http.StatusForbidden, "workers are added and removed from this machine only, over loopback")
			return
		}
		h(w, r)
	})
}

func (rt *Router) withToken(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case rt.config.AdminToken == "":
			adminError(w, http.StatusForbidden, "the router has no admin token; start it with --admin-token-file")
		case !same(token, rt.config.AdminToken):
			adminError(w, http.StatusUnauthorized, "it needs the admin token, as Authorization: Bearer TOKEN")
		default:
			h(w, r)
		}
	}
}

func adminError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
}

// addWorker adds the worker that the body describes: {"url": ..., "id": ...}.
func (rt *Router) addWorker(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		ID  string `json:"id"`
		URL string `json:"url"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAdminBody)).Decode(&asked); err != nil {
		adminError(w, http.StatusBadRequest, `it is {"url": "http://HOST:PORT", "id": "NAME"}: `+err.Error())
		return
	}
	text := asked.URL
	if asked.ID != "" {
		text = asked.ID + "=" + asked.URL
	}
	spec, err := ParseSpec(text)
	if err != nil {
		adminError(w, http.StatusBadRequest, err.Error())
		return
	}
	known, err := rt.prober.check(r.Context(), spec, true)
	if errors.Is(err, ErrMismatch) {
		adminError(w, http.StatusConflict, err.Error())
		return
	}
	if err := rt.join(spec, known); err != nil { //nolint:contextcheck // health checks outlive the request
		adminError(w, http.StatusConflict, err.Error())
		return
	}
	for _, s := range rt.fleet.status().Workers {
		if s.ID == spec.ID {
			writeJSON(w, http.StatusCreated, s)
		}
	}
}

// removeWorker has a worker removed: when nothing runs on it any more or, with
// ?now=true, at once.
func (rt *Router) removeWorker(w http.ResponseWriter, r *http.Request) {
	if err := rt.fleet.drain(r.PathValue("id"), r.URL.Query().Get("now") == "true"); err != nil {
		adminError(w, http.StatusNotFound, err.Error())
		return
	}
	w.WriteHeader(http.StatusAccepted)
}
