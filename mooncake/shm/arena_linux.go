package shm

import (
	"fmt"
	"os"
	"sort"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageBytes is the unit of everything in an arena: memory can be taken out of
// it by the page.
var pageBytes = os.Getpagesize()

// An arena is a memfd and its mapping in this process.
//
// It can be retired: nothing is allocated from it then, and it is unmapped when
// its last Buffer has been freed.
type arena struct {
	fd  int
	mem []byte // all of it

	mu struct {
		sync.Mutex
		free    extents
		buffers []*Buffer // that are not free, by address
		used    []bool    // by page: may hold something, so that memory is behind it
		private []bool    // by page: not mapped to the memfd here
		touched time.Time // when pages were last taken or given
		retired error     // what Alloc returns from then on
		gone    bool      // unmapped
		loose   int64     // calls whose pages were detached
	}
}

func newArena(bytes int64) (*arena, error) {
	pages := int((bytes + int64(pageBytes) - 1) / int64(pageBytes))
	size := pages * pageBytes
	fd, err := unix.MemfdCreate("ollamoon", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("creating a memfd: %w", err)
	}
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("sizing the memfd: %w", err)
	}
	// Who shrinks a mapped file kills those who then touch it. The process has the
	// file too.
	seals := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("sealing the memfd: %w", err)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("mapping %d bytes: %w", size, err)
	}
	a := &arena{fd: fd, mem: mem}
	a.mu.free = extents{{0, pages}}
	a.mu.used = make([]bool, pages)
	a.mu.private = make([]bool, pages)
	return a, nil
}

// A Buffer is memory of a Session's arena.
type Buffer struct {
	arena *arena
	size  int
	extent
	// Guarded by the arena's mu.
	pins  int  // calls of the process that may touch it
	freed bool // by its owner; its pages are free when pins is 0 too
}

// Bytes is the memory, of the size asked for, zeroed at first.
func (b *Buffer) Bytes() []byte {
	if b.arena == nil {
		return nil
	}
	begin := b.first * pageBytes
	return b.arena.mem[begin : begin+b.size : begin+b.size]
}

// Free gives the memory back. Nothing may use it then. Only the first call does
// anything.
func (b *Buffer) Free() {
	if b.arena == nil {
		return
	}
	b.arena.mu.Lock()
	defer b.arena.mu.Unlock()
	if b.freed {
		return
	}
	b.freed = true
	b.arena.release(b)
}

func (a *arena) alloc(size int) (*Buffer, error) {
	if size < 0 {
		return nil, fmt.Errorf("%w: a Buffer of %d bytes", ErrFull, size)
	}
	if size == 0 {
		return &Buffer{}, nil
	}
	b, dirty, err := a.take(size)
	if err != nil {
		return nil, err
	}
	for _, run := range dirty {
		clear(a.mem[run.first*pageBytes : run.end()*pageBytes])
	}
	return b, nil
}

// take makes a Buffer, and returns which of its pages are not known to be zero.
func (a *arena) take(size int) (*Buffer, []extent, error) {
	count := (size-1)/pageBytes + 1
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.retired != nil {
		return nil, nil, a.mu.retired
	}
	first, ok := a.mu.free.take(count)
	if !ok {
		return nil, nil, fmt.Errorf("%w: no %d bytes of %d in one piece", ErrFull, size, len(a.mem))
	}
	b := &Buffer{arena: a, size: size, extent: extent{first, count}}
	i := a.search(first)
	a.mu.buffers = append(a.mu.buffers, nil)
	copy(a.mu.buffers[i+1:], a.mu.buffers[i:])
	a.mu.buffers[i] = b
	dirty := runs(a.mu.used, b.extent, true)
	fill(a.mu.used, b.extent, true)
	a.mu.touched = time.Now()
	return b, dirty, nil
}

// search returns the index of the first Buffer that does not begin before a
// page.
func (a *arena) search(page int) int {
	return sort.Search(len(a.mu.buffers), func(i int) bool { return a.mu.buffers[i].first >= page })
}

// release makes a Buffer's pages free, once its owner has freed it and no call
// may touch it.
func (a *arena) release(b *Buffer) {
	if !b.freed || b.pins > 0 {
		return
	}
	i := a.search(b.first)
	a.mu.buffers = append(a.mu.buffers[:i], a.mu.buffers[i+1:]...)
	a.mu.touched = time.Now()
	if a.mu.retired != nil {
		a.unmapUnused()
		return
	}
	for _, run := range runs(a.mu.private, b.extent, true) {
		if a.remap(run, a.fd, unix.MAP_SHARED) != nil {
			return // the pages stay taken
		}
	}
	fill(a.mu.private, b.extent, false)
	a.mu.free.give(b.first, b.count)
}

// remap replaces the mapping of pages, by that of the same pages of a file or,
// if fd is -1, by zeroes.
func (a *arena) remap(run extent, fd, flags int) error {
	offset := int64(0)
	if fd >= 0 {
		offset = int64(run.first) * int64(pageBytes)
	}
	at := unsafe.Pointer(&a.mem[run.first*pageBytes]) //nolint:gosec // within the arena
	_, err := unix.MmapPtr(fd, offset, at, uintptr(run.count*pageBytes),
		unix.PROT_READ|unix.PROT_WRITE, flags|unix.MAP_FIXED)
	return err
}

// retire ends allocation with an error.
func (a *arena) retire(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.retired == nil {
		a.mu.retired = err
	}
	a.unmapUnused()
}

func (a *arena) unmapUnused() {
	if len(a.mu.buffers) > 0 || a.mu.gone {
		return
	}
	a.mu.gone = true
	_ = unix.Munmap(a.mem) // of what Mmap returned
	_ = unix.Close(a.fd)
}

// trimStep bounds what one trim gives back, and so how long Alloc waits for it.
const trimStep = 64 << 20

// trim gives free memory back to the system, but for keep bytes, when the arena
// has not been used since a time. High pages go first.
func (a *arena) trim(keep int64, since time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.retired != nil || a.mu.touched.After(since) {
		return
	}
	var used []extent
	surplus := -int(keep / int64(pageBytes))
	for _, run := range a.mu.free {
		for _, u := range runs(a.mu.used, run, true) {
			used = append(used, u)
			surplus += u.count
		}
	}
	surplus = min(surplus, trimStep/pageBytes)
	for i := len(used) - 1; i >= 0 && surplus > 0; i-- {
		count := min(used[i].count, surplus)
		surplus -= count
		run := extent{used[i].end() - count, count}
		err := unix.Fallocate(a.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
			int64(run.first)*int64(pageBytes), int64(run.count)*int64(pageBytes))
		if err != nil {
			return
		}
		fill(a.mu.used, run, false)
	}
}

func (a *arena) stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Stats{Detached: a.mu.loose}
	for _, b := range a.mu.buffers {
		s.Allocated += int64(b.count) * int64(pageBytes)
	}
	for _, used := range a.mu.used {
		if used {
			s.Resident += int64(pageBytes)
		}
	}
	return s
}
