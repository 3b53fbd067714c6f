package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"ollamoon/internal/cluster"
)

// A Running cluster is what has been started.
type Running struct {
	URL       string  // of the router
	Children  []Child // but those of the store
	AdminFile string  // of the router's token, where its status needs one
	LogDir    string
	Client    *http.Client
}

// A session is one run.
type session struct {
	options Options
	err     io.Writer
	folder  folder
	logs    logs
	client  *http.Client
	cluster *cluster.Cluster // nil: another store
	parts   []*part          // in the order of their start
	keeper  keeper
}

// Run starts a cluster, has use called with it, keeps it running until use
// returns, and stops it. When hurry is done it is stopped without waiting. What use
// returns, Run returns; when the cluster cannot go on, use's context ends, and the
// error wraps ErrGivenUp. What happens is told to stderr.
func Run(ctx, hurry context.Context, o Options, stderr io.Writer, use func(context.Context, Running) error) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	s := &session{options: o, err: &console{to: stderr}}
	s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	s.keeper = keeper{usualPatience, wallClock, s.say}
	if s.folder, err = openFolder(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.folder.remove()) }()
	if err := s.openLogs(); err != nil {
		return err
	}
	defer s.logs.close()
	defer s.stop(hurry)
	children, err := s.start(ctx)
	if err != nil {
		return s.because(ctx, err)
	}
	running := Running{
		URL: children[len(children)-1].URL(), Children: children, LogDir: s.logs.folder, Client: s.client,
	}
	if o.APIKeys != "" {
		running.AdminFile = s.file(adminToken)
	}
	return s.keep(ctx, func(ctx context.Context) error { return use(ctx, running) })
}

// because is why a start failed: that it was interrupted needs no further words.
func (s *session) because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *session) openLogs() error {
	s.logs.folder = s.options.LogDir
	if s.logs.folder == "" {
		s.logs.folder = s.file("logs")
	}
	if s.options.Verbose {
		s.logs.shown = s.err
	}
	if err := os.MkdirAll(s.logs.folder, 0o700); err != nil {
		return fmt.Errorf("making a folder for logs: %w", err)
	}
	return nil
}

// say tells what happens. That nobody can read it stops nothing.
func (s *session) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.err, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// keep has the cluster used, and keeps its parts running meanwhile.
func (s *session) keep(ctx context.Context, use func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	lost := losses{left: map[Kind]int{}}
	for _, p := range s.parts {
		lost.left[p.kind]++
	}
	for _, p := range s.parts {
		keeping.Go(func() {
			err := s.keeper.keep(ctx, p)
			switch {
			case err == nil:
			case lost.fatal(p.kind):
				end(err)
			default:
				s.say("%v; the cluster goes on without it", err)
			}
		})
	}
	err := use(ctx)
	cause := context.Cause(ctx)
	end(nil)
	keeping.Wait()
	if errors.Is(cause, ErrGivenUp) {
		return cause
	}
	return err
}

// losses counts the parts that are left of each kind.
type losses struct {
	sync.Mutex
	left map[Kind]int
}

// fatal notes that a part is lost, and reports whether nothing answers without it.
func (l *losses) fatal(kind Kind) bool {
	l.Lock()
	defer l.Unlock()
	l.left[kind]--
	return l.left[kind] == 0 && (kind == KindRouter || kind == KindDecode)
}
