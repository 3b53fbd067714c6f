package prefill

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/trust"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A computer computes in steps of 100 tokens, in no time, or as it is told.
type computer struct {
	step  func(ctx context.Context, at int) error // before each
	token time.Duration
	seen  atomic.Int64
}

func (c *computer) Compute(ctx context.Context, _ string, tokens []int32, published func(int)) error {
	for at := 0; at < len(tokens); at += 100 {
		if c.step != nil {
			if err := c.step(ctx, at); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		c.seen.Add(100)
		published(at + 100)
	}
	return nil
}

func (c *computer) Outstanding(tokens int) int { return tokens }
func (c *computer) TokenTime() time.Duration   { return c.token }

var ours = Identity{Version: Version, Namespace: "m@1", Words: "model m", PageTokens: 256}

// serving serves a handler and returns its URL.
func serving(t *testing.T, h *Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(Path, h)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func pool(t *testing.T, config Config) *Pool {
	t.Helper()
	config.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	if config.Identity == (Identity{}) {
		config.Identity = ours
	}
	p, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestAPromptIsComputedElsewhere(t *testing.T) {
	secret := trust.Secret("a secret of thirty-two characters")
	c := &computer{}
	p := pool(t, Config{URLs: []string{serving(t, &Handler{Computer: c, Identity: ours, Secret: secret})}, Secret: secret})
	if err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Prefill(t.Context(), "", make([]int32, 1000), 0, 1000, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := c.seen.Load(); got != 1000 {
		t.Errorf("%d tokens computed", got)
	}
	if s := p.Status(); s[0].Asked != 1 || s[0].Done != 1 || s[0].Error != "" {
		t.Errorf("%+v", s)
	}
}

// The member that is expected to be done first is asked, and nobody when it is
// sooner here.
func TestTheQuickestIsAsked(t *testing.T) {
	slow, quick := &computer{token: 10 * time.Millisecond}, &computer{token: time.Millisecond}
	p := pool(t, Config{URLs: []string{
		serving(t, &Handler{Computer: slow, Identity: ours}), serving(t, &Handler{Computer: quick, Identity: ours}),
	}})
	if _, err := p.Prefill(t.Context(), "", make([]int32, 500), 0, 500, time.Second); err != nil {
		t.Fatal(err)
	}
	if slow.seen.Load() != 0 || quick.seen.Load() != 500 {
		t.Errorf("%d tokens by the slow one, %d by the quick one", slow.seen.Load(), quick.seen.Load())
	}
	if _, err := p.Prefill(t.Context(), "", make([]int32, 500), 0, 500, 400*time.Millisecond); !errors.Is(err, ErrNotWorth) {
		t.Errorf("%v", err)
	}
	if _, err := p.Prefill(t.Context(), "", make([]int32, 500), 300, 500, 400*time.Millisecond); err != nil {
		t.Errorf("with 300 tokens there already: %v", err)
	}
}

// A member that is expected to be too slow is tried now and then, since what it says
// of itself changes only with what it computes; the more seldom, the more often it
// was too slow indeed.
func TestTheSlowAreTried(t *testing.T) {
	member := &computer{token: 10 * time.Millisecond} // it says
	p := pool(t, Config{URLs: []string{serving(t, &Handler{Computer: member, Identity: ours})}})
	asks := func(local time.Duration) (refusals int) {
		t.Helper()
		for ; ; refusals++ {
			_, err := p.Prefill(t.Context(), "", make([]int32, 500), 0, 500, local)
			if !errors.Is(err, ErrNotWorth) {
				if err != nil {
					t.Fatal(err)
				}
				return refusals
			}
		}
	}
	if n := asks(time.Second); n != tryAfter {
		t.Errorf("first it is tried after %d prompts", n)
	}
	if n := asks(time.Second); n != tryAfter {
		t.Errorf("a quick one is tried again after %d prompts", n)
	}
	member.step = func(context.Context, int) error {
		time.Sleep(230 * time.Millisecond)
		return nil
	}
	if n := asks(time.Second); n != tryAfter {
		t.Errorf("after a quick try it is tried after %d prompts", n)
	}
	if n := asks(time.Second); n != 2*tryAfter {
		t.Errorf("after a slow try it is tried after %d prompts", n)
	}
	if s := p.Status(); s[0].Asked != 4 || s[0].Done != 4 {
		t.Errorf("%+v", s)
	}
}

// What a member has to do already counts.
func TestAQueueCounts(t *testing.T) {
	release := make(chan struct{})
	busy := &computer{token: time.Millisecond, step: func(ctx context.Context, _ int) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}}
	h := &Handler{Computer: busy, Identity: ours}
	p := pool(t, Config{URLs: []string{serving(t, h)}})
	var asking sync.WaitGroup
	asking.Go(func() {
		if _, err := p.Prefill(t.Context(), "", make([]int32, 2000), 0, 2000, time.Minute); err != nil {
			t.Error(err)
		}
	})
	for h.outstanding.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := p.Prefill(t.Context(), "", make([]int32, 500), 0, 500, time.Second); !errors.Is(err, ErrNotWorth) {
		t.Errorf("%v", err)
	}
	close(release)
	asking.Wait()
	if left := h.outstanding.Load(); left != 0 {
		t.Errorf("%d tokens outstanding at the end", left)
	}
}

func TestMismatch(t *testing.T) {
	for name, other := range map[string]Identity{
		"version":    {Version: Version + 1, Namespace: ours.Namespace, PageTokens: 256},
		"namespace":  {Version: Version, Namespace: "m@2", Words: "another model", PageTokens: 256},
		"page size":  {Version: Version, Namespace: ours.Namespace, PageTokens: 512},
		"everything": {},
	} {
		p := pool(t, Config{URLs: []string{serving(t, &Handler{Computer: &computer{}, Identity: other})}})
		if err := p.Check(t.Context()); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := p.Prefill(t.Context(), "", make([]int32, 500), 0, 500, time.Second); !errors.Is(err, ErrNobody) || !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The other side refuses too.
	h := &Handler{Computer: &computer{}, Identity: Identity{Version: 9}}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, strings.NewReader(`{"version":1,"tokens":[1]}`))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusConflict {
		t.Errorf("status %d", w.Code)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	h := &Handler{Computer: &computer{}, Identity: ours, Secret: trust.Secret("a secret of thirty-two characters")}
	for name, secret := range map[string]trust.Secret{"none": nil, "another": trust.Secret("another secret of many characters")} {
		p := pool(t, Config{URLs: []string{serving(t, h)}, Secret: secret})
		if _, err := p.Prefill(t.Context(), "", make([]int32, 500), 0, 500, 0); !errors.Is(err, ErrNobody) || !errors.Is(err, ErrFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// And one who answers without having the secret is not believed.
	impostor := serving(t, &Handler{Computer: &computer{}, Identity: ours})
	p := pool(t, Config{URLs: []string{impostor}, Secret: trust.Secret("a secret of thirty-two characters")})
	if _, err := p.Prefill(t.Context(), "", make([]int32, 500), 0, 500, 0); !errors.Is(err, trust.ErrRefused) {
		t.Errorf("%v", err)
	}
}

// Whatever goes wrong on the other side is an error in bounded time, and the one
// that failed is left alone for a while.
func TestFailures(t *testing.T) {
	hang := func(ctx context.Context, at int) error {
		if at == 200 {
			<-ctx.Done()
		}
		return ctx.Err()
	}
	for name, c := range map[string]struct {
		member http.Handler
		local  time.Duration
		want   error
	}{
		"it fails": {&Handler{Identity: ours, Computer: &computer{step: func(context.Context, int) error { return errors.New("broken") }}}, 0, ErrFailed},
		// Heartbeats go on, so it is the time that ends this.
		"it is slow": {&Handler{Identity: ours, Computer: &computer{step: hang}}, 10 * time.Millisecond, ErrSlow},
		"it dies in the middle": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				(&Handler{Identity: ours, Computer: &computer{}}).ServeHTTP(w, r)
				return
			}
			_, _ = w.Write([]byte(`{"published":100}` + "\n"))
			panic(http.ErrAbortHandler)
		}), 0, ErrFailed},
		"it says nothing": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				(&Handler{Identity: ours, Computer: &computer{}}).ServeHTTP(w, r)
				return
			}
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), 0, ErrSlow},
		"it speaks in tongues": {http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				(&Handler{Identity: ours, Computer: &computer{}}).ServeHTTP(w, r)
				return
			}
			_, _ = w.Write([]byte("<html>\n"))
		}), 0, ErrFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			mux.Handle(Path, c.member)
			s := httptest.NewServer(mux)
			defer s.Close()
			p := pool(t, Config{URLs: []string{s.URL}, Stall: 1500 * time.Millisecond})
			if _, err := p.Prefill(t.Context(), "", make([]int32, 1000), 0, 1000, c.local); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if _, err := p.Prefill(t.Context(), "", make([]int32, 1000), 0, 1000, 0); !errors.Is(err, ErrNobody) {
				t.Errorf("the second time: %v", err)
			}
			if s := p.Status(); s[0].Error == "" || s[0].Done != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A client that goes away stops the work at the next step, and is no failure of
// the member's.
func TestCancel(t *testing.T) {
	begun := make(chan struct{}, 1)
	ended := make(chan struct{})
	c := &computer{step: func(ctx context.Context, at int) error {
		if at == 300 {
			begun <- struct{}{}
			<-ctx.Done()
			close(ended)
		}
		return ctx.Err()
	}}
	h := &Handler{Identity: ours, Computer: c}
	p := pool(t, Config{URLs: []string{serving(t, h)}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err := p.Prefill(ctx, "", make([]int32, 1000), 0, 1000, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the work goes on")
	}
	if got := c.seen.Load(); got != 300 {
		t.Errorf("%d tokens computed", got)
	}
	if s := p.Status(); s[0].Error != "" {
		t.Errorf("%+v", s)
	}
	for deadline := time.Now().Add(10 * time.Second); h.outstanding.Load() != 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d tokens outstanding", h.outstanding.Load())
		}
		time.Sleep(time.Millisecond)
	}
}

func TestLimits(t *testing.T) {
	h := &Handler{Identity: ours, Computer: &computer{}}
	h.asks.Store(maxAsks)
	p := pool(t, Config{URLs: []string{serving(t, h)}})
	if _, err := p.Prefill(t.Context(), "", make([]int32, 300), 0, 300, 0); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "503") {
		t.Errorf("%v", err)
	}
	for body, want := range map[string]int{"": 400, "{": 400, `{"tokens":["a"]}`: 400, `{"tokens":[1]}`: 409} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, strings.NewReader(body)))
		if w.Code != want {
			t.Errorf("%q: status %d, want %d", body, w.Code, want)
		}
	}
	for _, urls := range [][]string{nil, {"10.0.0.1:8080"}} {
		if _, err := New(Config{URLs: urls}); err == nil {
			t.Errorf("a pool of %q", urls)
		}
	}
}
