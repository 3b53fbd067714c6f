package shm

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

func testArena(t *testing.T, pages int) *arena {
	t.Helper()
	a, err := newArena(int64(pages * pageBytes))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.retire(ErrClosed)
		if !a.mu.gone {
			t.Error("the arena is still mapped")
		}
	})
	return a
}

func allocFrom(t *testing.T, a *arena, size int) *Buffer {
	t.Helper()
	b, err := a.alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Bytes()) != size || cap(b.Bytes()) != size {
		t.Fatalf("a Buffer of %d, %d bytes; want %d", len(b.Bytes()), cap(b.Bytes()), size)
	}
	return b
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

func TestBuffersAreZeroedAndReused(t *testing.T) {
	a := testArena(t, 8)
	x, y := allocFrom(t, a, 3*pageBytes-5), allocFrom(t, a, 5*pageBytes)
	if _, err := a.alloc(1); !errors.Is(err, ErrFull) {
		t.Errorf("of a full arena: %v", err)
	}
	for i := range x.Bytes() {
		x.Bytes()[i] = 1
	}
	y.Bytes()[0] = 2
	x.Free()
	x.Free()
	z := allocFrom(t, a, 3*pageBytes)
	if z.first != 0 || !isZero(z.Bytes()) {
		t.Errorf("page %d, zero %t", z.first, isZero(z.Bytes()))
	}
	if y.Bytes()[0] != 2 {
		t.Error("another Buffer was zeroed")
	}
	y.Free()
	z.Free()
	if len(a.mu.free) != 1 || a.mu.free[0] != (extent{0, 8}) {
		t.Errorf("free: %v", a.mu.free)
	}
	if _, err := a.alloc(8*pageBytes + 1); !errors.Is(err, ErrFull) {
		t.Errorf("more than the arena: %v", err)
	}
	if _, err := a.alloc(-1); !errors.Is(err, ErrFull) {
		t.Errorf("less than nothing: %v", err)
	}
	empty := allocFrom(t, a, 0)
	empty.Free()
}

func TestBuffersOutliveTheArena(t *testing.T) {
	a := testArena(t, 2)
	b := allocFrom(t, a, 10)
	a.retire(ErrSessionLost)
	a.retire(ErrClosed)
	b.Bytes()[9] = 1
	if _, err := a.alloc(1); !errors.Is(err, ErrSessionLost) {
		t.Errorf("%v", err)
	}
	if a.mu.gone {
		t.Error("unmapped under a Buffer")
	}
	b.Free()
	if !a.mu.gone {
		t.Error("the last Buffer is free, and the arena is mapped")
	}
}

func TestTrimGivesMemoryBack(t *testing.T) {
	a := testArena(t, 10)
	x, y := allocFrom(t, a, 4*pageBytes), allocFrom(t, a, 6*pageBytes)
	for _, b := range []*Buffer{x, y} {
		for i := range b.Bytes() {
			b.Bytes()[i] = 7
		}
	}
	y.Free()
	resident := func() int { return int(a.stats().Resident) / pageBytes }
	a.trim(int64(2*pageBytes), a.mu.touched.Add(-time.Second))
	if resident() != 10 {
		t.Errorf("%d pages after a trim too early", resident())
	}
	a.trim(int64(2*pageBytes), time.Now())
	if resident() != 6 || a.mem[10*pageBytes-1] != 0 || a.mem[6*pageBytes-1] != 7 {
		t.Errorf("%d pages are resident", resident())
	}
	if x.Bytes()[0] != 7 {
		t.Error("a Buffer lost its bytes")
	}
	z := allocFrom(t, a, 6*pageBytes)
	if !isZero(z.Bytes()) {
		t.Error("not zeroed")
	}
	x.Free()
	z.Free()
}

func TestWhichBytesAreShared(t *testing.T) {
	a := testArena(t, 10)
	low, b := allocFrom(t, a, pageBytes), allocFrom(t, a, 3*pageBytes+100)
	p := pageBytes
	bytes := b.Bytes()
	for _, c := range []struct {
		name string
		of   []byte
		want error
	}{
		{"all", bytes, nil},
		{"a page", bytes[p : 2*p], nil},
		{"the end", bytes[3*p:], nil},
		{"from within a page", bytes[1:], ErrNotShared},
		{"up to within a page", bytes[:p+1], ErrNotShared},
		{"nothing", bytes[:0], ErrNotShared},
		{"the heap", make([]byte, p), ErrNotShared},
		{"no Buffer", a.mem[6*p : 7*p], ErrNotShared},
		{"two Buffers", a.mem[:2*p], ErrNotShared},
		{"behind a Buffer's end", a.mem[p : 5*p], ErrNotShared},
	} {
		a.mu.Lock()
		_, _, err := a.locate(c.of)
		a.mu.Unlock()
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	low.Free()
	if _, err := a.pin([]Item{{"k", bytes}, {"l", low.Bytes()}}); !errors.Is(err, ErrNotShared) || b.pins != 0 {
		t.Errorf("pinning what is free: %v, %d pins", err, b.pins)
	}
	b.Free()
}

// A detached get leaves a Buffer that the process cannot write to; a detached
// put, one whose bytes stay and whose changes the process does not see. The
// memory is shared again when both are done with it.
func TestDetach(t *testing.T) {
	for _, keep := range []bool{false, true} {
		a := testArena(t, 4)
		// The process's mapping of the memfd.
		process, err := mapAgain(a)
		if err != nil {
			t.Fatal(err)
		}
		b := allocFrom(t, a, 2*pageBytes)
		copy(b.Bytes(), "before")
		p, err := a.pin([]Item{{"k", b.Bytes()[:pageBytes]}})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.detach(keep); err != nil {
			t.Fatal(err)
		}
		if got := string(b.Bytes()[:6]); keep != (got == "before") {
			t.Errorf("keep %t: holds %q", keep, got)
		}
		b.Bytes()[0] = 'X'
		if string(process[:6]) != "before" {
			t.Errorf("keep %t: the process sees %q", keep, process[:6])
		}
		if !keep {
			process[1] = 'Y'
			if b.Bytes()[1] != 0 {
				t.Error("the process writes into a Buffer that was taken from it")
			}
		}
		b.Bytes()[pageBytes] = 'Z'
		if process[pageBytes] != 'Z' {
			t.Error("a page of no item is not shared any more")
		}
		if _, err := a.pin([]Item{{"k", b.Bytes()}}); !errors.Is(err, ErrNotShared) {
			t.Errorf("pinned again: %v", err)
		}
		b.Free()
		if b.pins != 2 || len(a.mu.buffers) != 1 {
			t.Error("free before the process was done")
		}
		p.unpin()
		p.unpin()
		again := allocFrom(t, a, pageBytes)
		again.Bytes()[0] = 'W'
		if again.first != 0 || process[0] != 'W' {
			t.Error("the memory is not shared again")
		}
		again.Free()
		if err := unmapAgain(process); err != nil {
			t.Error(err)
		}
	}
}

// When the system has no mappings left, a call is taken out of a retired arena
// together with all others: what the process writes then reaches no call, and each
// Buffer holds what it held.
func TestLeave(t *testing.T) {
	a := testArena(t, 4)
	process, err := mapAgain(a)
	if err != nil {
		t.Fatal(err)
	}
	idle, taken, called := allocFrom(t, a, pageBytes), allocFrom(t, a, pageBytes), allocFrom(t, a, 2*pageBytes)
	var calls []*pins
	for _, b := range []*Buffer{taken, called} {
		p, err := a.pin([]Item{{"k", b.Bytes()}})
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, p)
	}
	if err := calls[0].detach(false); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Buffer{idle, taken, called} {
		copy(b.Bytes(), "before")
	}
	a.retire(ErrSessionLost)
	a.mu.Lock()
	err = a.leave()
	a.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	process[pageBytes], process[2*pageBytes], process[4*pageBytes-1] = 'X', 'X', 'X'
	for i, b := range []*Buffer{idle, taken, called} {
		if string(b.Bytes()[:6]) != "before" || b.Bytes()[len(b.Bytes())-1] != 0 {
			t.Errorf("Buffer %d holds %q", i, b.Bytes()[:6])
		}
	}
	called.Bytes()[1] = 'Y'
	if process[2*pageBytes+1] == 'Y' {
		t.Error("the process sees a Buffer that was taken from it")
	}
	if calls[1].shared(0) || len(runs(a.mu.private, extent{0, 4}, false)) > 0 {
		t.Error("pages are shared still")
	}
	for _, p := range calls {
		p.unpin()
		p.unpin()
	}
	for _, b := range []*Buffer{idle, taken, called} {
		b.Free()
	}
	if err := unmapAgain(process); err != nil {
		t.Error(err)
	}
}
