package breaker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/store"
	"ollamoon/store/faulty"
	"ollamoon/store/memory"
	"ollamoon/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A breaker changes nothing of a store that works.
func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Config{
		Open: func(t *testing.T) store.Store {
			m, err := memory.New(storetest.RoomBytes)
			if err != nil {
				t.Fatal(err)
			}
			s := New(faulty.New(m), Config{Failures: 1})
			t.Cleanup(func() {
				if status := s.Status(); status.State != Closed || status.Opened != 0 {
					t.Errorf("it ends %+v", status)
				}
			})
			return s
		},
		Corrupt: func(t *testing.T, s store.Store, key string, offset int) {
			f := s.(*Store).Beneath().(*faulty.Store)
			f.Add(faulty.Fault{Ops: faulty.Get, Keys: func(k string) bool { return k == key }, Times: 1, Change: func(b []byte) { b[offset] ^= 0x40 }})
		},
	})
}

// A bench is a breaker over a store that answers as it is told to, with a clock
// that goes on when it is told to.
type bench struct {
	t *testing.T
	*Store
	calls int
	err   error
	now   time.Time
}

func (b *bench) BatchExist(context.Context, []string) ([]bool, error) {
	b.calls++
	return []bool{false}, b.err
}

func (b *bench) BatchPut(_ context.Context, items []store.Item) []error {
	b.calls++
	return store.Errors(len(items), b.err)
}

func (b *bench) BatchGet(_ context.Context, items []store.Item) []error {
	b.calls++
	return store.Errors(len(items), b.err)
}

func (b *bench) Discard(context.Context, string) error {
	b.calls++
	return b.err
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, now: time.Unix(1e9, 0)}
	b.Store = New(b, Config{Failures: 3, Pause: time.Second, MaxPause: 4 * time.Second, Now: func() time.Time { return b.now }})
	return b
}

// ask makes a call of an operation with the store answering err, and returns
// what came of it and whether the store was asked.
func (b *bench) ask(op operation, err error) (error, bool) { //nolint:revive // the error is a result as good as the other
	b.err = err
	before := b.calls
	got := call(b.t.Context(), b.Store, op)
	return got, b.calls > before
}

// call makes a call of an operation.
func call(ctx context.Context, s *Store, op operation) error {
	items := []store.Item{{Key: "k", Bytes: make([]byte, 8)}}
	switch op {
	case exist:
		_, err := s.BatchExist(ctx, []string{"k"})
		return err
	case put:
		return s.BatchPut(ctx, items)[0]
	case get:
		return s.BatchGet(ctx, items)[0]
	default:
		return s.Discard(ctx, "k")
	}
}

// fail makes calls that the store fails.
func (b *bench) fail(op operation, times int) {
	b.t.Helper()
	for range times {
		if err, asked := b.ask(op, errDown); !asked || !errors.Is(err, errDown) {
			b.t.Fatalf("%v, asked %v", err, asked)
		}
	}
}

// refuses fails the test unless a call fails with ErrOpen and the store is not
// asked.
func (b *bench) refuses(op operation) {
	b.t.Helper()
	err, asked := b.ask(op, nil)
	if asked || !errors.Is(err, ErrOpen) || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, errDown) || !strings.Contains(err.Error(), "no route") {
		b.t.Fatalf("%v, asked %v", err, asked)
	}
}

// passes fails the test unless a call is passed on to a store that works.
func (b *bench) passes(op operation) {
	b.t.Helper()
	if err, asked := b.ask(op, nil); !asked || err != nil {
		b.t.Fatalf("%v, asked %v", err, asked)
	}
}

func (b *bench) is(want State) {
	b.t.Helper()
	if got := b.Status(); got.State != want || got.Since.After(b.now) {
		b.t.Fatalf("%v since %v, want %v", got.State, got.Since, want)
	}
}

// wait lets the pause pass, which has to be this long.
func (b *bench) wait(pause time.Duration) {
	b.t.Helper()
	if got := b.Status().Until.Sub(b.now); got != pause {
		b.t.Fatalf("a pause of %v, want %v", got, pause)
	}
	b.now = b.now.Add(pause - time.Nanosecond)
	b.refuses(exist)
	b.now = b.now.Add(time.Nanosecond)
}

var errDown = fmt.Errorf("%w: no route", store.ErrUnavailable)

func TestOpensAndProbes(t *testing.T) {
	b := newBench(t)
	b.fail(get, 2)
	b.passes(get) // which begins the row anew
	b.fail(get, 2)
	b.is(Closed)
	b.fail(get, 1)
	b.is(Open)
	for op := range operations {
		b.refuses(op)
	}
	for _, pause := range []time.Duration{1, 2, 4, 4} { // the pause grows to its bound
		b.wait(pause * time.Second)
		b.fail(get, 1)
		b.is(Open)
	}
	b.wait(4 * time.Second)
	b.passes(get)
	b.is(Closed)
	b.fail(get, 3) // after a success pauses are short again
	b.wait(time.Second)
	b.passes(get)
	if s := b.Status(); s.Opened != 6 || s.Refused != 4+6 || !errors.Is(s.LastError, errDown) || s.LastErrorAt.IsZero() {
		t.Errorf("%+v", s)
	}
}

// A store that answers lookups and nothing else stays open longer and longer.
func TestLookupsDoNotHideReads(t *testing.T) {
	b := newBench(t)
	for range 2 {
		b.fail(get, 1)
		b.passes(exist)
	}
	b.fail(get, 1)
	b.wait(time.Second)
	for _, pause := range []time.Duration{2, 4} {
		b.passes(exist) // the probe
		b.is(Closed)
		b.fail(get, 1)
		b.wait(pause * time.Second)
	}
	b.passes(exist)
	b.passes(get)
	b.fail(get, 2)
	b.is(Closed)
}

func TestJudges(t *testing.T) {
	gone := fmt.Errorf("%w: the client went away", context.Canceled)
	slow := fmt.Errorf("%w: %w", store.ErrUnavailable, context.DeadlineExceeded)
	for name, c := range map[string]struct {
		errs []error
		want outcome
	}{
		"success":               {[]error{nil}, answered},
		"not found":             {[]error{store.ErrNotFound}, answered},
		"exists":                {[]error{store.ErrExists}, answered},
		"read-only":             {[]error{store.ErrReadOnly}, answered},
		"full":                  {[]error{store.ErrFull}, answered},
		"length":                {[]error{store.ErrLength}, answered},
		"key":                   {[]error{store.ErrBadKey}, answered},
		"unavailable":           {[]error{errDown, errDown}, failed},
		"deadline":              {[]error{context.DeadlineExceeded}, failed},
		"an owner down":         {[]error{errDown, nil, errDown}, answered},
		"one too slow":          {[]error{nil, slow, store.ErrNotFound}, failed},
		"cancelled":             {[]error{gone, gone}, nothing},
		"cancelled in between":  {[]error{nil, gone}, answered},
		"cancelled while it is": {[]error{errDown, gone}, failed},
		"closed":                {[]error{store.ErrClosed}, nothing},
		"an empty batch":        {nil, nothing},
	} {
		got, because := judgeAll(c.errs)
		if got != c.want || (because != nil) != (got == failed) {
			t.Errorf("%s: %v because of %v, want %v", name, got, because, c.want)
		}
	}
}

// Whose context is done before the call has not met with the store.
func TestDoneContextsAreNotAsked(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for op := range operations {
		if err := call(ctx, b.Store, op); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if b.calls != 0 {
		t.Errorf("%d calls", b.calls)
	}
	b.is(Closed)
}

// While a probe is under way nobody else is let through; one whose caller goes
// leaves the next to be the probe.
func TestOneProbe(t *testing.T) {
	m, err := memory.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	beneath := faulty.New(m)
	now := time.Unix(1e9, 0)
	s := New(beneath, Config{Failures: 1, Pause: time.Second, Now: func() time.Time { return now }})
	defer s.Close() //nolint:errcheck // a test
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	beneath.Add(faulty.Fault{Times: 1, Err: errDown})
	if err := call(ctx, s, exist); !errors.Is(err, errDown) {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	beneath.Add(faulty.Fault{Times: 1, Hang: true})
	probe := make(chan error, 1)
	go func() { probe <- call(ctx, s, get) }()
	for deadline := time.Now().Add(time.Minute); s.Status().State != HalfOpen; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no probe")
		}
	}
	var others sync.WaitGroup
	for range 8 {
		others.Go(func() {
			if err := call(t.Context(), s, exist); !errors.Is(err, ErrOpen) {
				t.Error(err)
			}
		})
	}
	others.Wait()
	cancel()
	if err := <-probe; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if got := s.Status(); got.State != HalfOpen || got.Refused != 8 {
		t.Errorf("%+v", got)
	}
	if err := call(t.Context(), s, exist); err != nil {
		t.Error(err)
	}
	if got := s.Status().State; got != Closed {
		t.Error(got)
	}
}

// What began before the breaker changed says nothing afterwards: a late failure
// does not make the pause longer, a late success does not close it.
func TestLateOutcomes(t *testing.T) {
	b := newBench(t)
	var late [2]func(outcome, error)
	for i := range late {
		var err error
		if late[i], err = b.begin(t.Context(), get); err != nil {
			t.Fatal(err)
		}
	}
	b.fail(get, 3)
	until := b.Status().Until
	late[0](failed, errDown)
	late[1](answered, nil)
	if s := b.Status(); s.State != Open || s.Until != until || s.Opened != 1 {
		t.Errorf("%+v", s)
	}
}

// A caller's panic in the middle of a probe does not keep the store from being
// asked again.
func TestPanics(t *testing.T) {
	m, err := memory.New(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1e9, 0)
	beneath := faulty.New(m)
	s := New(beneath, Config{Failures: 1, Now: func() time.Time { return now }})
	defer s.Close() //nolint:errcheck // a test
	item := store.Item{Key: "k", Bytes: make([]byte, 8)}
	if err := s.BatchPut(t.Context(), []store.Item{item})[0]; err != nil {
		t.Fatal(err)
	}
	beneath.Add(faulty.Fault{Times: 1, Err: errDown})
	_ = call(t.Context(), s, exist)
	now = now.Add(time.Hour)
	func() {
		defer func() { _ = recover() }()
		item.Done = func() { panic("a caller's") }
		s.BatchGet(t.Context(), []store.Item{item})
	}()
	if err := call(t.Context(), s, exist); err != nil {
		t.Error(err)
	}
}
