package shm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ollamoon/internal/cluster"
	"ollamoon/mooncake/structpack"
)

// pause stops the process of the cluster's owner until resume is called.
func pause(t *testing.T, c *cluster.Cluster) (resume func()) {
	t.Helper()
	pid := c.OwnerPID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(resume)
	for ctx := within(t, 20*time.Second); !isStopped(t, pid); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("the process does not stop")
		}
	}
	return resume
}

// isStopped reports whether all threads of a process have stopped.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("threads of %d: %v, %v", pid, threads, err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return false // it has just ended
		}
		if state := stat[bytes.LastIndexByte(stat, ')')+2]; state != 'T' {
			return false
		}
	}
	return true
}

// answered waits until the process has answered all calls about a Buffer.
func answered(t *testing.T, b *Buffer) {
	t.Helper()
	for ctx := within(t, 20*time.Second); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		b.arena.mu.Lock()
		pins := b.pins
		b.arena.mu.Unlock()
		if pins == 0 {
			return
		}
	}
	t.Fatal("the process does not answer")
}

func mustPut(t *testing.T, s *Session, key string, b []byte) {
	t.Helper()
	r, err := s.Put(within(t, 20*time.Second), []Item{{key, b}})
	if err != nil || r[0].Code != 0 {
		t.Fatalf("putting: %v, %v", r, err)
	}
}

func get(t *testing.T, s *Session, key string, b []byte) Result {
	t.Helper()
	r, err := s.Get(within(t, 20*time.Second), []Item{{key, b}})
	if err != nil {
		t.Fatal(err)
	}
	return r[0]
}

// A get that its caller gave up is carried out later. It must not reach the
// caller's memory, nor memory that has been given to someone else.
func TestGetThatWasGivenUp(t *testing.T) {
	c := commonCluster(t, cluster.Version)
	s := openSession(t, c, cluster.Version, Options{})
	const size = 1<<20 + 80
	from, to := alloc(t, s, size), alloc(t, s, size)
	fillWith(from.Bytes(), 'a')
	mustPut(t, s, t.Name(), from.Bytes())

	resume := pause(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := s.Get(ctx, []Item{{t.Name(), to.Bytes()}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	fillWith(to.Bytes(), 'b') // the caller uses its memory for something else
	resume()
	answered(t, to)
	if i := bytes.IndexFunc(to.Bytes(), func(r rune) bool { return r != 'b' }); i >= 0 {
		t.Fatalf("byte %d is %q", i, to.Bytes()[i])
	}
	if s.Shared(to.Bytes()) {
		t.Error("the memory counts as shared")
	}
	if _, err := s.Get(within(t, 20*time.Second), []Item{{t.Name(), to.Bytes()}}); !errors.Is(err, ErrNotShared) {
		t.Errorf("a get into it: %v", err)
	}
	first := to.first
	to.Free()
	again := alloc(t, s, size)
	if again.first != first || !isZero(again.Bytes()) {
		t.Errorf("page %d, zero %t", again.first, isZero(again.Bytes()))
	}
	if r := get(t, s, t.Name(), again.Bytes()); r.Bytes != size || !bytes.Equal(again.Bytes(), from.Bytes()) {
		t.Errorf("%+v", r)
	}
}

// Memory that is freed while the process may still write to it is given to
// nobody before it has answered.
func TestMemoryOfACallIsQuarantined(t *testing.T) {
	c := commonCluster(t, cluster.Version)
	s := openSession(t, c, cluster.Version, Options{ArenaBytes: 4 << 20})
	const size = 2 << 20
	from, to := alloc(t, s, size), alloc(t, s, size)
	fillWith(from.Bytes(), 'a')
	mustPut(t, s, t.Name(), from.Bytes())
	from.Free()
	resume := pause(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, []Item{{t.Name(), to.Bytes()}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	to.Free()
	other := alloc(t, s, size)
	if _, err := s.Alloc(size); !errors.Is(err, ErrFull) {
		t.Errorf("the memory was given to someone: %v", err)
	}
	fillWith(other.Bytes(), 'c')
	resume()
	answered(t, to)
	if i := bytes.IndexFunc(other.Bytes(), func(r rune) bool { return r != 'c' }); i >= 0 {
		t.Errorf("byte %d of another Buffer is %q", i, other.Bytes()[i])
	}
	last := alloc(t, s, size)
	if !isZero(last.Bytes()) {
		t.Error("not zeroed")
	}
}

// A put that its caller gave up stores, if at all, what the caller gave it, not
// what the memory held later.
func TestPutThatWasGivenUp(t *testing.T) {
	c := commonCluster(t, cluster.Version)
	s := openSession(t, c, cluster.Version, Options{})
	const size = 1 << 20
	from, to := alloc(t, s, size), alloc(t, s, size)
	fillWith(from.Bytes(), 'a')
	resume := pause(t, c)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Put(ctx, []Item{{t.Name(), from.Bytes()}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if from.Bytes()[0] != 'a' || from.Bytes()[size-1] != 'a' {
		t.Error("the caller's bytes are gone")
	}
	fillWith(from.Bytes(), 'b')
	resume()
	answered(t, from)
	if r := get(t, s, t.Name(), to.Bytes()); r.Bytes != size || len(bytes.Trim(to.Bytes(), "a")) != 0 {
		t.Errorf("%+v, holds %q", r, to.Bytes()[0])
	}
}

func TestOwnerKilledAndStartedAgain(t *testing.T) {
	c := startCluster(t, cluster.Version, cluster.Config{})
	s := openSession(t, c, cluster.Version, Options{PingInterval: 100 * time.Millisecond})
	b := alloc(t, s, 1<<20)
	fillWith(b.Bytes(), 'a')
	mustPut(t, s, "key", b.Bytes())

	c.KillOwner()
	select {
	case <-s.Done():
	case <-within(t, 20*time.Second).Done():
		t.Fatal("the session does not notice")
	}
	if _, err := s.Get(t.Context(), []Item{{"key", b.Bytes()}}); !errors.Is(err, ErrSessionLost) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.Alloc(1); !errors.Is(err, ErrSessionLost) {
		t.Errorf("alloc: %v", err)
	}
	if s.Shared(b.Bytes()) || len(bytes.Trim(b.Bytes(), "a")) != 0 {
		t.Error("the Buffer is shared, or lost its bytes")
	}
	options := s.options
	if _, err := Open(within(t, 20*time.Second), options); !errors.Is(err, ErrUnavailable) {
		t.Errorf("opening without a process: %v", err)
	}
	if err := c.StartOwner(within(t, time.Minute)); err != nil {
		t.Fatal(err)
	}
	next := openSession(t, c, cluster.Version, Options{})
	d := alloc(t, next, 1<<20)
	fillWith(d.Bytes(), 'd')
	putBeside(t, next, d.Bytes())
	if _, err := s.Put(t.Context(), []Item{{"key", b.Bytes()}}); !errors.Is(err, ErrSessionLost) {
		t.Errorf("the old session: %v", err)
	}
	if _, err := next.Put(t.Context(), []Item{{"key", b.Bytes()}}); !errors.Is(err, ErrNotShared) {
		t.Errorf("memory of the old session: %v", err)
	}
}

// putBeside puts until an object does not land in the memory of an owner that is
// gone, which its master does not know for 10 s.
func putBeside(t *testing.T, s *Session, b []byte) {
	t.Helper()
	for ctx, i := within(t, 30*time.Second), 0; ctx.Err() == nil; i++ {
		r, err := s.Put(ctx, []Item{{fmt.Sprint("beside ", i), b}})
		if err != nil {
			t.Fatal(err)
		}
		if r[0].Code == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("no put succeeds")
}

// A call that waits when its process is killed ends, and its memory is taken out
// of the arena.
func TestOwnerKilledDuringACall(t *testing.T) {
	c := startCluster(t, cluster.Version, cluster.Config{})
	s := openSession(t, c, cluster.Version, Options{})
	b := alloc(t, s, 1<<20)
	pause(t, c)
	done := make(chan error, 1)
	go func() {
		_, err := s.Get(within(t, 20*time.Second), []Item{{"key", b.Bytes()}})
		done <- err
	}()
	for s.arenaPins(b) == 0 {
		time.Sleep(time.Millisecond)
	}
	c.KillOwner()
	if err := <-done; !errors.Is(err, ErrSessionLost) {
		t.Errorf("%v", err)
	}
	if n := s.Stats().Detached; n != 1 {
		t.Errorf("%d calls detached", n)
	}
}

func (s *Session) arenaPins(b *Buffer) int {
	s.arena.mu.Lock()
	defer s.arena.mu.Unlock()
	return b.pins
}

func TestCloseEndsCalls(t *testing.T) {
	c := commonCluster(t, cluster.Version)
	s := openSession(t, c, cluster.Version, Options{})
	b := alloc(t, s, 1<<20)
	pause(t, c)
	done := make(chan error, 1)
	go func() {
		_, err := s.Get(within(t, 20*time.Second), []Item{{t.Name(), b.Bytes()}})
		done <- err
	}()
	for s.arenaPins(b) == 0 {
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("closing took %v", took)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	b.Bytes()[0] = 1
	b.Free()
	if !s.arena.mu.gone {
		t.Error("the arena is still mapped")
	}
}

// A process that is silent for too long is given up.
func TestSilentOwner(t *testing.T) {
	c := commonCluster(t, cluster.Version)
	s := openSession(t, c, cluster.Version, Options{CallTimeout: 300 * time.Millisecond})
	b := alloc(t, s, 1<<20)
	pause(t, c)
	if _, err := s.Put(within(t, 20*time.Second), []Item{{t.Name(), b.Bytes()}}); !errors.Is(err, ErrSessionLost) {
		t.Errorf("%v", err)
	}
}

// The process forgets the arena of a session that does not ping, and keeps that
// of one that does.
func TestPingsKeepASession(t *testing.T) {
	c := commonCluster(t, cluster.Version)
	lively := openSession(t, c, cluster.Version, Options{})
	mute := openSession(t, c, cluster.Version, Options{PingInterval: time.Hour})
	b, d := alloc(t, lively, 4096), alloc(t, mute, 4096)
	mustPut(t, lively, t.Name(), b.Bytes())
	time.Sleep(13 * time.Second) // the process waits 10
	if r := get(t, lively, t.Name(), b.Bytes()); r.Bytes != 4096 {
		t.Errorf("%+v", r)
	}
	if _, err := mute.Get(within(t, 20*time.Second), []Item{{t.Name(), d.Bytes()}}); !errors.Is(err, ErrSessionLost) {
		t.Errorf("without pings: %v", err)
	}
}

func TestOtherVersionIsRefused(t *testing.T) {
	c := commonCluster(t, cluster.VersionOld)
	o := Options{Addr: c.Owner()}
	configs[cluster.Version](&o)
	if _, err := Open(within(t, 20*time.Second), o); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
	o.WriteConfig = nil
	if _, err := Open(within(t, 20*time.Second), o); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without a config: %v", err)
	}
	// A master's port has no such functions, and no socket.
	o = Options{Addr: c.Master(), ConfigType: structpack.Bool, WriteConfig: func(w *structpack.Writer) { w.Bool(true) }}
	if _, err := Open(within(t, 20*time.Second), o); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a master: %v", err)
	}
}
