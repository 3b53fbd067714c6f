package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Bounds on connections, whatever they ask for.
const (
	headerWait  = 10 * time.Second
	idleWait    = 2 * time.Minute
	headerBytes = 64 << 10
)

// Serve serves clients at a listener until ctx is done. Then it takes no more, and
// lets those that are there finish within drain. It closes the router.
func (rt *Router) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	defer rt.Close()
	requests, breakOff := context.WithCancel(context.WithoutCancel(ctx))
	defer breakOff()
	var running sync.WaitGroup
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			running.Add(1)
			defer running.Done()
			rt.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: headerWait, IdleTimeout: idleWait, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(rt.config.Logger.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	rt.config.Logger.Info("the router ends when what runs has been answered", "within", drain)
	grace, cancel := context.WithTimeout(requests, drain)
	defer cancel()
	err := server.Shutdown(grace)
	if err != nil {
		breakOff()
		rt.fleet.close()
		_ = server.Close() // whoever still waits gets nothing more
	}
	<-failed //nolint:errcheck // it says that the server has been shut down
	running.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("requests were broken off: they ran longer than %v: %w", drain, err)
	}
	return err
}
