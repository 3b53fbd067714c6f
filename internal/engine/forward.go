package engine

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Forward returns a handler that passes requests on to the engine and its
// answers back, as they come. Where the engine breaks off, so does it.
func (c *Client) Forward(log *slog.Logger) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "engine"})
			r.Out.Host = r.In.Host
			r.Out.Header.Del("Expect") // answered here already
		},
		Transport:     c.forwards,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				log.Debug("the engine does not answer", "path", r.URL.Path, "error", err)
			}
			panic(http.ErrAbortHandler) // as the engine's own end would look
		},
	}
}
