package router

import (
	"net/http"
	"strings"
)

// A treatment is what is done with requests to a path.
type treatment int

const (
	anyWorker treatment = iota // any healthy worker answers
	work                       // a worker that the policy chooses computes
	merge                      // all workers answer, and one list is made of it
	health                     // the router answers for all
	refuse                     // it would change one worker, and which one would be chance
)

// treatments by surface, and method and path.
var treatments = map[Surface]map[string]treatment{
	Llama: {
		"POST /completion": work, "POST /completions": work, "POST /v1/completions": work,
		"POST /chat/completions": work, "POST /v1/chat/completions": work, "POST /api/chat": work,
		"POST /v1/messages": work, "POST /responses": work, "POST /v1/responses": work, "POST /infill": work,
		"POST /embedding": work, "POST /embeddings": work, "POST /v1/embeddings": work,
		"POST /rerank": work, "POST /reranking": work, "POST /v1/rerank": work, "POST /v1/reranking": work,
		"GET /models": merge, "GET /v1/models": merge, "GET /api/tags": merge,
		"GET /health": health, "GET /v1/health": health,
		"POST /props": refuse, "POST /lora-adapters": refuse, "POST /models/load": refuse, "POST /models/unload": refuse,
	},
	Ollama: {
		"POST /api/generate": work, "POST /api/chat": work, "POST /api/embed": work, "POST /api/embeddings": work,
		"POST /v1/chat/completions": work, "POST /v1/completions": work, "POST /v1/embeddings": work,
		"POST /v1/responses": work, "POST /v1/messages": work, "POST /v1/audio/transcriptions": work,
		"GET /api/tags": merge, "GET /api/ps": merge, "GET /v1/models": merge,
		"POST /api/pull": refuse, "POST /api/push": refuse, "POST /api/create": refuse, "POST /api/copy": refuse,
		"DELETE /api/delete": refuse,
	},
}

// treat returns what is done with a request.
func (s Surface) treat(r *http.Request) treatment {
	if t, ok := treatments[s][r.Method+" "+r.URL.Path]; ok {
		return t
	}
	switch {
	case s == Llama && r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/slots/"):
		return refuse
	case s == Ollama && strings.HasPrefix(r.URL.Path, "/api/blobs/"):
		return refuse
	}
	return anyWorker
}

// openTo reports whether a path needs no API key, as with llama-server.
func (s Surface) openTo(r *http.Request) bool {
	return s == Llama && (r.URL.Path == "/health" || r.URL.Path == "/v1/health") || r.Method == http.MethodOptions
}
