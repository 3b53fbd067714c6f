package worker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ollamoon/connector"
	"ollamoon/internal/engine"
	"ollamoon/page"
	"ollamoon/prefix"
	"ollamoon/slotfile"
	"ollamoon/store"
)

// DefaultPageTokens is the number of tokens in a page where nobody chooses.
const DefaultPageTokens = 256

// maxPageTokens bounds a page: pages are read and written as wholes, several at a time.
const maxPageTokens = 4096

// ErrPageTokens is wrapped when pages cannot have a number of tokens.
var ErrPageTokens = errors.New("worker: pages cannot have that many tokens")

// CheckPageTokens returns an error that wraps ErrPageTokens and says which numbers
// of tokens a page can have. A page is a multiple of minBatch: it is computed in
// batches of no less, wherever it begins, or else it could not be published.
func CheckPageTokens(n int) error {
	if n < minBatch || n > maxPageTokens || n%minBatch != 0 {
		return fmt.Errorf("%w: %d; give a multiple of %d from %d to %d, such as %d", ErrPageTokens, n, minBatch, minBatch, maxPageTokens, DefaultPageTokens)
	}
	return nil
}

// Config says what a Worker works with.
type Config struct {
	Engine *engine.Client
	// Prefix is the path prefix under which the engine serves.
	Prefix string
	// Slots is how many slots the engine has, Context how many tokens fit into one.
	Slots, Context int
	// Used says that the slots may have rows that others have put there.
	Used bool
	// UBatch is the engine's physical batch size, in tokens.
	UBatch int
	// Remembered is how many tokens of conversations the engine keeps besides its
	// slots (--cache-ram).
	Remembered int
	// APIKeys are those that the engine accepts; none means that it asks for none.
	APIKeys []string

	// Stall is how long a client may take nothing of its answer; 0 stands for
	// DefaultStall.
	Stall time.Duration

	// Tenant tells whose a completion is; nil: all are one tenant's. Tenants share
	// no pages, but those of Sharing.Common; a slot is emptied between two. The
	// engine must not have a memory of conversations (--cache-ram 0) then.
	Tenant func(*http.Request) (string, error)
	// Prefiller has long prompts computed elsewhere; it may be nil.
	Prefiller Prefiller

	// Sharing is nil when nothing can be shared; Reason then says why.
	Sharing *Sharing
	Reason  string

	Logger *slog.Logger
	// Observer is told what becomes of completions; nil is nobody.
	Observer Observer
	// Requests gets a line for each prompt that is answered; nil is no log. Its owner
	// closes what it writes to, after the worker.
	Requests *RequestLog
}

// Sharing is what it takes to share an engine's cache.
type Sharing struct {
	Store store.Store
	Role  connector.Role
	// Namespace also says how many tokens a page has.
	Namespace prefix.Namespace
	Sealer    *page.Sealer
	// Exact asks for answers that equal those of a cold engine, bit for bit: a slot
	// is emptied before each, only pages are reused, and at least minBatch tokens
	// are computed. The engine must not have a memory of conversations (--cache-ram 0).
	Exact bool
	// UBatch is the engine's physical batch size, in tokens, where answers are to be
	// exact.
	UBatch int
	// Shape is that of the engine's slot files, Folder where it writes them.
	Shape  slotfile.Shape
	Folder string
	// Overflow, if not empty, is a folder on disk for slot files that Folder has no
	// room for. Room tells how much can be written to a folder; nil is room.Bytes.
	Overflow string
	Room     func(folder string) int64
	// Window is how many tokens the layers of the second section attend to; 0 when
	// the engine keeps all rows of all sections.
	Window int
	// Ring is how many pages' rows the cells of such layers hold for a slot; 0 when
	// slots share them.
	Ring int
	// MaxSaving is the part of computing a prompt that saving it may cost before the
	// answer; 0 stands for DefaultSaving.
	MaxSaving float64
	// Common are beginnings of prompts whose pages all tenants share.
	Common [][]int32
	// Deadline bounds each lookup, load and publish.
	Deadline time.Duration
}

// A Worker is an HTTP handler in front of an engine. Its owner closes it.
type Worker struct {
	config    Config
	queue     *queue
	forward   *httputil.ReverseProxy
	share     atomic.Pointer[sharer]    // nil when nothing is shared; changes only when no slot is in use
	files     atomic.Pointer[slotFiles] // nil before anything is shared
	memory    remembered
	replaced  replaced
	lead      lead
	refused   atomic.Bool // the store's last answer to new pages was that it takes none
	publishes sync.WaitGroup
	mu        struct {
		sync.Mutex
		closed bool            // nothing more is begun to be published
		past   connector.Stats // of what was shared before
	}
}

// New returns a Worker.
func New(config Config) (*Worker, error) {
	if config.Observer == nil {
		config.Observer = unobserved{}
	}
	config.Stall = cmp.Or(config.Stall, DefaultStall)
	w := &Worker{config: config, queue: newQueue(config.Slots), forward: config.Engine.Forward(config.Logger)}
	for _, s := range w.queue.slots {
		s.unknown = config.Used
	}
	w.memory.limit = config.Remembered
	if config.Sharing != nil {
		if err := w.makeFiles(config.Sharing); err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		share, err := newSharer(config.Sharing, nil)
		if err != nil {
			return nil, fmt.Errorf("worker: %w", err)
		}
		if least := share.pageTokens + minBatch; least > config.Context {
			return nil, fmt.Errorf("%w: %d, in a context of %d, where no prompt has a page and %d tokens more; choose fewer",
				ErrPageTokens, share.pageTokens, config.Context, minBatch)
		}
		w.share.Store(share)
	}
	return w, nil
}

// Close waits for what is being published. What is asked for later, or goes on, is
// answered still, and not published.
func (w *Worker) Close() {
	w.mu.Lock()
	w.mu.closed = true
	w.mu.Unlock()
	w.publishes.Wait()
}

// publishing reports whether something may be published. It is counted in
// publishes then.
func (w *Worker) publishing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.mu.closed {
		w.publishes.Add(1)
	}
	return !w.mu.closed
}

// ServeHTTP serves completions by way of a slot and everything else by the
// engine alone.
func (w *Worker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, w.config.Prefix)
	if id, action, yes := w.slotAction(r, path); ok && yes {
		w.serveSlotAction(rw, r, id, action)
		return
	}
	if _, completion := Endpoint(r, w.config.Prefix); !completion || !w.authorized(r) {
		w.forward.ServeHTTP(rw, r)
		return
	}
	tenant, ok := w.tenant(rw, r)
	if !ok {
		return
	}
	w.serveCompletion(rw, r, path, tenant)
}

// authorized reports whether the engine will accept a request's key: one that
// it will refuse should not cause any work.
func (w *Worker) authorized(r *http.Request) bool {
	return engine.Listener{APIKeys: w.config.APIKeys}.Authorized(r)
}
