package standin

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"ollamoon/internal/engine"
	"ollamoon/internal/prefill"
	"ollamoon/internal/room"
	"ollamoon/internal/worker"
	"ollamoon/page"
	"ollamoon/slotfile"
	"ollamoon/store/breaker"
	"ollamoon/store/open"
)

const (
	// calibrationTime bounds a calibration.
	calibrationTime = 10 * time.Second
	// weightsTime bounds how long a ready engine waits for its weights' digest;
	// past that it serves unshared until the digest is there.
	weightsTime = 3 * time.Second
)

// errNone: no store is wanted.
var errNone = errors.New("no store is wanted")

// prepare waits for the engine, finds out whether and how to share its cache,
// and opens the gate.
func (s *standIn) prepare(ctx context.Context) {
	if s.settings.Store == open.None {
		if s.engine.Ready(ctx) == nil {
			s.unshared(errNone)
		}
		return
	}
	// Both take time, while the engine loads its model.
	var finding sync.WaitGroup
	defer finding.Wait()
	digests := openWeightsCache()
	weightsOf := func(path string) *future[weightsFile] {
		return find(&finding, func() (weightsFile, error) { return digests.model(ctx, path) })
	}
	var weights *future[weightsFile]
	path, named := s.args.Model()
	if named {
		weights = weightsOf(path)
	}
	opened := find(&finding, func() (*breaker.Store, error) { return s.openStore(ctx) })
	if s.engine.Ready(ctx) != nil {
		return // it is over
	}
	known, err := s.calibrate(ctx)
	s.board.set(state{build: known.props.BuildInfo})
	if err != nil {
		s.unshared(err)
		return
	}
	known.digests = digests
	if !named {
		weights = weightsOf(known.props.ModelPath)
	}
	select {
	case <-weights.found:
	case <-time.After(weightsTime):
		s.board.set(state{reason: "the weights are being read for their digest"})
		s.gate.serve(s.passing())
	}
	if known.weights, err = weights.wait(); err == nil {
		_, err = s.stored(ctx, opened)
	}
	if err == nil {
		err = s.share(ctx, known)
	}
	if err != nil {
		s.unshared(err)
	}
}

// unshared lets all requests pass on to the engine.
func (s *standIn) unshared(reason error) {
	if errors.Is(reason, context.Canceled) {
		return // the engine is over
	}
	if errors.Is(reason, prefill.ErrMismatch) {
		s.mistake = reason
		_ = s.engine.Signal(syscall.SIGTERM) // it may be over
		return
	}
	s.board.set(state{reason: reason.Error()})
	s.announce.Info("prompts are not shared", "reason", reason)
	s.gate.serve(s.passing())
}

// passing serves while nothing is shared. A change of adapters does not get between
// finding out the namespace and sharing in it; once there is a worker it is the
// worker's, whose sharing may begin again.
func (s *standIn) passing() http.Handler {
	passing := s.unsharing()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.changesAdapters(r) {
			passing.ServeHTTP(w, r)
			return
		}
		if !received(w, r) {
			return
		}
		s.starting.Lock()
		shares := s.sharer
		if shares == nil {
			defer s.starting.Unlock()
			passing.ServeHTTP(w, r)
			return
		}
		s.starting.Unlock()
		shares.ServeHTTP(w, r)
	})
}

// maxAdapters bounds a list of adapters, in bytes.
const maxAdapters = 1 << 20

// received reads the body of a request, so that no client holds up others with it,
// and reports whether it has.
func received(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdapters))
	if err != nil {
		http.Error(w, "reading the request: "+err.Error(), http.StatusBadRequest)
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return true
}

// unsharing passes requests on to the engine, and counts those that could have been
// shared.
func (s *standIn) unsharing() http.Handler {
	if s.tenant != nil {
		return s.apart()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if endpoint, ok := worker.Endpoint(r, s.gate.listener.Prefix); ok && s.gate.listener.Authorized(r) {
			defer s.metrics.Completed(worker.Completion{Endpoint: endpoint, Outcome: worker.NothingShared})
		}
		s.gate.direct.ServeHTTP(w, r)
	})
}

// calibrate finds out what the engine's slot files are like.
func (s *standIn) calibrate(ctx context.Context) (identity, error) {
	known := identity{settings: s.settings, binary: s.binary, args: s.args}
	ctx, cancel := context.WithTimeoutCause(ctx, calibrationTime, fmt.Errorf("calibration takes more than %v", calibrationTime))
	defer cancel()
	props, err := s.engine.Props(ctx)
	if err != nil {
		return known, err
	}
	known.props = props
	var untold error
	if !s.args.WholeWindow() {
		known.window, untold = slidingWindow(props.ModelPath)
	}
	known.shape, err = engine.Calibrate(ctx, s.engine.Client, s.folders.slots, known.window)
	switch {
	case err != nil:
		return known, err
	case len(known.shape.Sections) == 1:
		known.window = 0
	case untold != nil:
		return known, fmt.Errorf("%w: its cache has several sections: %w", engine.ErrNoSharing, untold)
	}
	return known, nil
}

// share starts sharing.
func (s *standIn) share(ctx context.Context, known identity) error {
	s.starting.Lock()
	defer s.starting.Unlock()
	sealer, key, err := s.sealer()
	if err != nil {
		return err
	}
	known.seal = sealName(key)
	sharing, err := s.sharing(ctx, known, sealer)
	if err != nil {
		return err
	}
	remembered := 0
	if !sharing.Exact && s.tenant == nil { // half, since the engine keeps more of a conversation than its rows
		remembered = int(s.args.Remembers() / 2 / int64(slotBytes(known.shape)))
	}
	pool, err := s.asks(ctx, sharing)
	if err != nil {
		return err
	}
	config := worker.Config{
		Engine: s.engine.Client, Prefix: s.gate.listener.Prefix, APIKeys: s.gate.listener.APIKeys,
		Slots: known.props.TotalSlots, Context: known.props.Settings.ContextTokens, UBatch: s.args.UBatch(),
		Used:       s.gate.open.Load() != nil, // it has served unshared
		Remembered: remembered,
		Tenant:     s.tenant,
		Sharing:    sharing, Logger: s.log, Observer: s.metrics, Requests: s.openRequests(),
	}
	if pool != nil {
		s.pool.Store(pool)
		config.Prefiller = pool
	}
	if s.worker, err = worker.New(config); err != nil {
		return err
	}
	s.computes(sharing)
	// Whoever reads that prompts are shared may count on it with the next request, and
	// whoever finds it healthy on reading that.
	said, handler := make(chan struct{}), s.adapters(known, sealer)
	s.sharer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-said
		handler.ServeHTTP(w, r)
	})
	s.gate.serve(s.sharer)
	s.shares(sharing, known)
	close(said)
	return nil
}

// shares notes and says that prompts are shared.
func (s *standIn) shares(sharing *worker.Sharing, known identity) {
	s.board.set(state{sharing: sharing, build: known.props.BuildInfo, worker: s.worker})
	s.announce.Info("prompts are shared", "store", s.settings.Store, "role", sharing.Role, "namespace", sharing.Namespace.Model())
	s.log.Info("the namespace in words", "namespace", sharing.Namespace.String())
	slot := int64(slotBytes(known.shape)) * int64(known.props.Settings.ContextTokens)
	left := max(room.Bytes(s.folders.slots), room.Bytes(s.folders.overflow))
	if left < slot {
		s.log.Warn("the folders for slot files have no room for a whole slot; longer prompts will not be shared",
			"folder", s.folders.slots, "overflow", s.folders.overflow, "room", left, "slot", slot)
	}
}

// slotBytes is what a token takes in a slot file.
func slotBytes(shape slotfile.Shape) int {
	total := 0
	for _, s := range shape.Sections {
		total += s.PageBytes(1)
	}
	return total
}

// sharing returns what the engine shares, with the adapters that it applies at
// the moment.
func (s *standIn) sharing(ctx context.Context, known identity, sealer *page.Sealer) (*worker.Sharing, error) {
	var err error
	if known.loras, err = s.engine.LoRAs(ctx); err != nil {
		return nil, err
	}
	namespace, err := known.namespace(ctx)
	if err != nil {
		return nil, err
	}
	common, err := s.commonPrompts(ctx)
	if err != nil {
		return nil, err
	}
	return &worker.Sharing{
		Store: s.store.Load(), Role: s.settings.Role, Namespace: namespace, Sealer: sealer, Exact: s.settings.Exact, UBatch: s.args.UBatch(),
		Common: common,
		Shape:  known.shape, Window: known.window, Ring: known.ring(), Folder: s.folders.slots, Overflow: s.folders.overflow, Deadline: s.settings.Deadline,
	}, nil
}

// adapters serves by the worker, and follows clients that change the scales of
// adapters: the same prompts have other pages then.
func (s *standIn) adapters(known identity, sealer *page.Sealer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !s.changesAdapters(r):
			s.worker.ServeHTTP(w, r)
			return
		case !s.gate.listener.Authorized(r):
			s.gate.direct.ServeHTTP(w, r) // the engine refuses it
			return
		case !received(w, r):
			return
		}
		s.starting.Lock() // one change at a time, to its end
		defer s.starting.Unlock()
		ctx := context.WithoutCancel(r.Context()) // what the engine has begun to change has to be known
		begun := false
		var broken any
		err := s.worker.Reshare(r.Context(), func() (*worker.Sharing, error) {
			begun = true
			func() {
				defer func() { broken = recover() }() // the client has gone
				s.gate.direct.ServeHTTP(w, r.WithContext(ctx))
			}()
			sharing, err := s.sharing(ctx, known, sealer)
			if err == nil {
				s.computes(sharing)
				s.asksFor(sharing)
				s.gate.serve(s.sharer) // a change before may have failed
				s.shares(sharing, known)
			}
			return sharing, err
		})
		if err != nil && begun {
			s.unshared(err)
		}
		if broken != nil {
			panic(broken)
		}
	})
}

// changesAdapters reports whether a request is one that changes what adapters count
// for.
func (s *standIn) changesAdapters(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == s.gate.listener.Prefix+"/lora-adapters"
}

// sealer returns what seals pages, and its key, if it has one.
func (s *standIn) sealer() (*page.Sealer, []byte, error) {
	if s.settings.SealKeyFile == "" {
		return &page.Sealer{}, nil, nil
	}
	data, err := os.ReadFile(s.settings.SealKeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the sealing key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the sealing key of %s: %w", s.settings.SealKeyFile, err)
	}
	sealer, err := page.NewKeyedSealer(key)
	return sealer, key, err
}

// A future is a value that is being found out.
type future[T any] struct {
	found chan struct{} // closed when it is
	value T
	err   error
}

// find begins to find out a value; the group waits for it.
func find[T any](group *sync.WaitGroup, how func() (T, error)) *future[T] {
	f := &future[T]{found: make(chan struct{})}
	group.Go(func() {
		defer close(f.found)
		f.value, f.err = how()
	})
	return f
}

// wait returns the value when it is there.
func (f *future[T]) wait() (T, error) {
	<-f.found
	return f.value, f.err
}
