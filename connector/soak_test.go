package connector_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/connector"
	"ollamoon/internal/cluster"
	"ollamoon/page"
	"ollamoon/store"
)

const (
	soakPageBytes = 4 << 10
	soakPages     = 16 // a prompt
	soakPrompts   = 96
	soakAccepted  = 20_000           // pages, at least
	soakCall      = 30 * time.Second // no call takes so long
)

// A soak is workers that share prompts through one store, and what goes on
// around them.
type soak struct {
	cluster *cluster.Cluster
	prompts []prompt
	keys    [][]string
	pages   [][][]byte // payloads

	loads, accepted, missed, stored, sessions atomic.Int64
	// wrong counts accepted pages that were not the ones asked for, late those that
	// were and did not stay so.
	wrong, late atomic.Int64
	slowest     atomic.Int64 // of all calls, in nanoseconds
	masters     atomic.Int64 // restarts
	owners      atomic.Int64
	evicted     atomic.Int64 // objects, as far as masters told before they were killed

	mu struct {
		sync.Mutex
		outcomes map[string]int    // errors of calls, and why runs ended
		damage   map[string]int    // done to the store
		stats    []connector.Stats // of workers that have ended
	}
}

// Never a wrong byte: workers on both planes load, check and publish pages while
// the store evicts, its objects are removed, replaced and overwritten, and its
// master and owner are killed and started again. Every page that a load accepts
// is the page that was asked for, and stays so in the caller's buffer; every
// failure is of a known kind, in bounded time.
func TestNeverAWrongByte(t *testing.T) {
	if os.Getenv("OLLAMOON_FULL") != "1" {
		soaked(t, cluster.Version, 40*time.Second, soakAccepted)
		return
	}
	for _, release := range []string{cluster.Version, cluster.VersionOld} {
		t.Run(release, func(t *testing.T) { soaked(t, release, 10*time.Minute, 1<<40) })
	}
}

// soaked runs a soak until so many pages have been accepted, or for so long.
func soaked(t *testing.T, release string, length time.Duration, accepted int64) {
	const restarts = 2
	s := newSoak(t, release)
	leakless(t)
	lasting := map[string]*worker{}
	for _, plane := range planes {
		lasting[plane] = soakWorker(t, s, plane)
	}
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var all sync.WaitGroup
	for _, plane := range planes {
		for _, shared := range []bool{true, false} {
			all.Go(func() { s.work(ctx, t, lasting[plane], shared, randomness()) })
		}
		all.Go(func() { s.comeAndGo(ctx, t, plane, randomness()) })
	}
	all.Go(func() { s.harm(ctx, t) })
	all.Go(func() { s.restart(ctx, t) })
	for ctx.Err() == nil && (s.accepted.Load() < accepted || s.masters.Load() < restarts || s.owners.Load() < restarts) {
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	all.Wait()
	s.recovered(t, lasting)
	s.countEvicted(t.Context(), t)
	s.judge(t)
}

func randomness() *rand.Rand { return rand.New(rand.NewPCG(rand.Uint64(), 0)) }

func newSoak(t *testing.T, release string) *soak {
	programs, err := cluster.Programs(release)
	if err != nil {
		t.Fatal(err)
	}
	s := &soak{cluster: run(t, cluster.Config{
		Programs:     programs,
		SegmentBytes: 16 << 20, LeaseTTL: 500 * time.Millisecond, ClientTTL: 3 * time.Second,
		EvictionHighWatermark: 0.25, EvictionRatio: 0.1,
		MasterFlags: []string{"--put_start_discard_timeout_sec=2", "--put_start_release_timeout_sec=3"},
	})}
	t.Cleanup(s.cluster.Close)
	s.mu.outcomes, s.mu.damage = map[string]int{}, map[string]int{}
	config := pagesOf(soakPageBytes)
	for i := range soakPrompts {
		s.prompts = append(s.prompts, promptOf(uint64(i), soakPages)) //nolint:gosec // an index
		pages, err := config.Keys.Pages(s.prompts[i])
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		var payloads [][]byte
		for _, page := range pages {
			payload := make([]byte, soakPageBytes)
			compute(payload, page.Hash)
			keys, payloads = append(keys, page.Key), append(payloads, payload)
		}
		s.keys, s.pages = append(s.keys, keys), append(s.pages, payloads)
	}
	return s
}

// soakWorker is a worker that its caller need not close.
func soakWorker(t *testing.T, s *soak, plane string) *worker {
	st, err := open(within(t), s.cluster, plane)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return workerOver(t, st, pagesOf(soakPageBytes))
}

// comeAndGo works with one client after the other.
func (s *soak) comeAndGo(ctx context.Context, t *testing.T, plane string, r *rand.Rand) {
	for ctx.Err() == nil {
		st, err := open(ctx, s.cluster, plane)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("dialling: %v", err)
			}
			pause(ctx, 100*time.Millisecond)
			continue
		}
		w := workerOver(t, st, pagesOf(soakPageBytes))
		session, end := context.WithTimeout(ctx, time.Duration(r.Int64N(int64(2*time.Second))))
		s.work(session, t, w, r.IntN(2) == 0, r)
		end()
		s.sessions.Add(1)
		s.retire(w)
		if err := st.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	}
}

// work loads and publishes until ctx ends, with buffers of the store or others.
func (s *soak) work(ctx context.Context, t *testing.T, w *worker, shared bool, r *rand.Rand) {
	loaded, free := w.buffers(t, soakPages)
	defer free()
	published, free := w.buffers(t, soakPages)
	defer free()
	if !shared {
		for i := range loaded {
			loaded[i], published[i] = make([]byte, w.ObjectBytes()), make([]byte, w.ObjectBytes())
		}
	}
	for ctx.Err() == nil {
		// Some prompts are asked for more often than others.
		which := int(r.Float64() * r.Float64() * soakPrompts)
		n := 1 + r.IntN(soakPages)
		got := s.load(ctx, t, w, r, which, loaded[:n])
		if got < n {
			s.publish(ctx, t, w, r, which, published[:n])
		}
		for i := range got {
			if !bytes.Equal(loaded[i][:soakPageBytes], s.pages[which][i]) {
				s.late.Add(1)
			}
		}
	}
}

// limited returns a context for a call that begins before ctx ends. Some calls are
// given up at once.
func limited(ctx context.Context, r *rand.Rand) (context.Context, context.CancelFunc) {
	limit := soakCall
	if r.IntN(20) == 0 {
		limit = time.Duration(r.Int64N(int64(3 * time.Millisecond)))
	}
	return context.WithTimeout(context.WithoutCancel(ctx), limit)
}

func (s *soak) load(ctx context.Context, t *testing.T, w *worker, r *rand.Rand, which int, buffers [][]byte) int {
	for _, b := range buffers {
		clear(b)
	}
	ctx, cancel := limited(ctx, r)
	defer cancel()
	defer s.timed(time.Now())
	match, err := w.LoadCachedPrefix(ctx, s.prompts[which][:len(buffers)*pageTokens], buffers)
	s.outcome(t, "looking up", err)
	s.outcome(t, "loading", match.Stopped)
	s.loads.Add(1)
	s.accepted.Add(int64(match.Pages))
	s.missed.Add(int64(len(buffers) - match.Pages))
	for i := range match.Pages {
		if !bytes.Equal(buffers[i][:soakPageBytes], s.pages[which][i]) {
			s.wrong.Add(1)
		}
	}
	return match.Pages
}

func (s *soak) publish(ctx context.Context, t *testing.T, w *worker, r *rand.Rand, which int, buffers [][]byte) {
	for i, b := range buffers {
		copy(b, s.pages[which][i])
	}
	ctx, cancel := limited(ctx, r)
	defer cancel()
	begin := time.Now()
	stored, err := w.StoreComputedPrefix(ctx, s.prompts[which][:len(buffers)*pageTokens], buffers)
	s.timed(begin)
	s.outcome(t, "publishing", err)
	s.stored.Add(int64(stored))
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrFull) {
		pause(ctx, 10*time.Millisecond)
	}
}

func (s *soak) timed(begin time.Time) {
	took := int64(time.Since(begin))
	for {
		old := s.slowest.Load()
		if took <= old || s.slowest.CompareAndSwap(old, took) {
			return
		}
	}
}

// outcome counts an error, which has to be of a kind that a worker expects.
func (s *soak) outcome(t *testing.T, doing string, err error) {
	if err == nil {
		return
	}
	kind := page.Reason(err)
	for _, known := range []error{store.ErrNotFound, store.ErrLength, store.ErrFull, store.ErrUnavailable, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			kind = known.Error()
		}
	}
	if kind == "" {
		t.Errorf("%s: %v", doing, err)
		kind = "other"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.outcomes[doing+": "+kind]++
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
