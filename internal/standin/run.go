package standin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ollamoon/internal/engine"
	"ollamoon/internal/metrics"
	"ollamoon/internal/prefill"
	"ollamoon/internal/settings"
	"ollamoon/internal/trust"
	"ollamoon/internal/worker"
	"ollamoon/store/breaker"
)

// Bounds on the end, once the engine is over.
const (
	answersGrace   = 2 * time.Second // for answers to reach their clients
	publishesGrace = 5 * time.Second // for pages to reach the store
)

// A standIn runs in the engine's place.
type standIn struct {
	settings settings.Settings
	args     engine.Arguments
	binary   string
	log      *slog.Logger
	announce *slog.Logger // for what is said also when the log is quiet
	console  *console
	folders  folders
	listener net.Listener
	engine   *engine.Process
	gate     *gate
	board    board
	stderr   *engineWriter

	secret trust.Secret                        // in common with routers and prefill workers; may be empty
	tenant func(*http.Request) (string, error) // whose a request is; nil: all are one tenant's

	recent  *recent
	metrics *metrics.Metrics

	starting sync.Mutex                    // held while sharing starts, and while adapters change
	sharer   http.Handler                  // what serves while prompts are shared; nil before, guarded by starting
	worker   *worker.Worker                // when prompts are shared and prepare is over
	requests *os.File                      // the request log, with the worker; nil: none
	pool     atomic.Pointer[prefill.Pool]  // of prefill workers that are asked; nil: none
	store    atomic.Pointer[breaker.Store] // when it is open

	mistake error // in the settings, for which the engine is ended; of prepare
}

// Run runs as llama-server would with these arguments, without the program's
// name, in this environment, and returns how it is to end. It may also become
// the real llama-server and not return. StartedAs is the program's name.
func Run(ctx context.Context, startedAs string, args, environ []string) Exit {
	given := args
	s, args, err := settings.Load(given, environ, settingsBeside(startedAs))
	if errors.Is(err, settings.ErrHelp) {
		fmt.Print(settings.Usage())
		return Exit{}
	}
	if err != nil {
		return unset(err, startedAs, given, environ)
	}
	binary, err := FindBinary(s.Binary, startedAs, os.Getenv("PATH"))
	if err != nil {
		return failed(err)
	}
	si := &standIn{settings: s, args: engine.Arguments{Args: args, Env: environ}, binary: binary, console: &console{to: os.Stderr}}
	si.recent = &recent{}
	si.log = si.recent.logger(si.console.logger(s, s.LogLevel))
	si.announce = si.console.logger(s, min(s.LogLevel, slog.LevelInfo))
	if s.LogLevel > slog.LevelWarn {
		si.announce = si.log
	}
	if reason, yes := si.args.Passthrough(); yes {
		si.log.Info("the real llama-server runs by itself", "reason", reason)
		return become(binary, startedAs, args, environ)
	}
	if err := si.knowOthers(); err != nil {
		return failed(err)
	}
	signals := make(chan os.Signal, 16)
	notify(signals)
	defer signal.Stop(signals)
	if err := si.start(ctx); err != nil {
		si.log.Warn("the real llama-server runs by itself", "reason", err)
		signal.Stop(signals)
		return become(binary, startedAs, args, environ)
	}
	return si.run(ctx, signals)
}

// notify receives the signals that end an engine. Those that this process was
// started to ignore (nohup) the engine ignores too, but for the two that it
// always handles itself.
func notify(signals chan<- os.Signal) {
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	// Where files may be no longer (ulimit -f), a write is refused, as on a full disk.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGXFSZ)
}

// failed ends a run before there was one.
func failed(err error) Exit {
	fmt.Fprintln(os.Stderr, "ollamoon: error:", err) // Ollama shows its user what follows "error:"
	return Exit{Code: 1}
}

// start takes the public address and starts the engine. When it fails it leaves
// nothing behind.
func (s *standIn) start(ctx context.Context) (err error) {
	asked, err := s.args.Listener()
	if err != nil {
		return err
	}
	slots, users := s.args.SlotPath()
	if !users {
		slots = s.settings.Slots
	}
	if s.listener, err = listen(ctx, asked); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = s.listener.Close()
		}
	}()
	if s.folders, err = openFolders(slots, users); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.folders.remove()
		}
	}()
	stderr := &engineWriter{console: s.console, public: []byte(publicURL(asked, s.listener))}
	stderr.private = []byte("unix://" + engine.SocketIn(s.folders.run))
	s.engine, err = engine.Start(engine.Config{
		Binary: s.binary, Args: s.behind(), Slots: s.folders.slots, Folder: s.folders.run, Stdout: os.Stdout, Stderr: stderr,
	})
	if err != nil {
		return err
	}
	s.stderr = stderr
	s.metrics = metrics.New(s.snapshot)
	s.gate = &gate{listener: asked, actions: users, direct: s.engine.Forward(s.log)}
	s.gate.tenants = s.tenant != nil
	if s.settings.Tenants == settings.RouterTenants {
		s.gate.guard = func(r *http.Request) error { _, err := s.tenant(r); return err }
	}
	s.gate.own = map[string]http.Handler{statusPath: proving(s.secret, http.HandlerFunc(s.serveStatus)), metricsPath: s.metrics.Handler()}
	return nil
}

// behind returns the engine's arguments, with what this program adds for its own
// reasons.
func (s *standIn) behind() engine.Arguments {
	args := s.args
	if s.settings.Exact || s.settings.Tenants != settings.OneTenant {
		args = args.With("--cache-ram", "0") // rows from its memory of conversations have no known origin, and no tenant
	}
	if terminal(os.Stdout) && terminal(os.Stderr) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		args.Env = append([]string{"LLAMA_ARG_LOG_COLORS=on"}, args.Env...) // a later one of the user's counts
	}
	return args
}

// terminal reports whether a file may be a terminal, which the engine cannot see
// where it writes into a pipe.
func terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// run serves until the engine is over.
func (s *standIn) run(ctx context.Context, signals <-chan os.Signal) Exit {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // signals are the engine's
	defer cancel()
	server := &http.Server{
		Handler: s.gate, ReadHeaderTimeout: time.Minute, ConnContext: worker.ConnContext,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	var running sync.WaitGroup
	running.Go(func() {
		if s.engine.Listens(ctx) != nil {
			return // it ends without having served
		}
		running.Go(func() { _ = server.Serve(s.listener) }) // until the listener or the server is closed
		s.prepare(ctx)
	})
	for over := false; !over; {
		select {
		case received := <-signals:
			if received == syscall.SIGTERM || received == syscall.SIGINT {
				_ = s.listener.Close() // the engine stops listening too
			}
			_ = s.engine.Signal(received) // it may be over
		case <-s.engine.Done():
			over = true
		}
	}
	cancel()
	s.stderr.flush()
	s.close(ctx, server, &running)
	if s.mistake != nil {
		return failed(s.mistake)
	}
	return exitOf(s.engine.State())
}

// close ends everything but the engine, which is over.
func (s *standIn) close(ctx context.Context, server *http.Server, running *sync.WaitGroup) {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), answersGrace)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // whoever still waits for an answer gets none
	}
	_ = s.listener.Close() // if it was never served
	running.Wait()
	if s.worker != nil {
		published := make(chan struct{})
		go func() {
			s.worker.Close()
			close(published)
		}()
		select {
		case <-published:
		case <-time.After(publishesGrace):
			s.log.Warn("pages are not published at the end")
		}
	}
	s.closeRequests()
	if pool := s.pool.Load(); pool != nil {
		pool.Close()
	}
	if opened := s.store.Load(); opened != nil {
		_ = opened.Close() // what it held is a cache
	}
	s.engine.Stop(0)
	s.folders.remove()
}
