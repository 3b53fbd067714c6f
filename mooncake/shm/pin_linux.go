package shm

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pins keep the pages of a call's items from being used for anything else while
// the process may touch them.
type pins struct {
	arena *arena
	pages []extent // of each item
}

// locate returns the pages of bytes that are shared: whole pages of one Buffer,
// none of them private. The caller holds mu.
func (a *arena) locate(bytes []byte) (extent, *Buffer, error) {
	base := uintptr(unsafe.Pointer(unsafe.SliceData(a.mem))) //nolint:gosec // only its value is looked at
	at := uintptr(unsafe.Pointer(unsafe.SliceData(bytes)))   //nolint:gosec // as above
	if len(bytes) == 0 || at < base || at-base >= uintptr(len(a.mem)) || a.mu.gone {
		return extent{}, nil, fmt.Errorf("%w: not of the arena", ErrNotShared)
	}
	begin := int(at - base)
	end := begin + len(bytes)
	first := begin / pageBytes
	i := a.search(first + 1) // behind the Buffer that begins at or before the page
	if i == 0 {
		return extent{}, nil, fmt.Errorf("%w: not of a Buffer", ErrNotShared)
	}
	b := a.mu.buffers[i-1]
	last := b.first*pageBytes + b.size
	if b.freed || end > last || begin%pageBytes != 0 || end%pageBytes != 0 && end != last {
		return extent{}, nil, fmt.Errorf("%w: not whole pages of a Buffer", ErrNotShared)
	}
	run := extent{first, (end-1)/pageBytes + 1 - first}
	if len(runs(a.mu.private, run, true)) > 0 {
		return extent{}, nil, fmt.Errorf("%w: taken out of the arena after a call that did not end", ErrNotShared)
	}
	return run, b, nil
}

// pin pins the pages of all items, or of none, twice: for who asks, who may yet
// detach them, and for the process.
func (a *arena) pin(items []Item) (*pins, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &pins{arena: a, pages: make([]extent, len(items))}
	buffers := make([]*Buffer, len(items))
	for i, item := range items {
		var err error
		if p.pages[i], buffers[i], err = a.locate(item.Bytes); err != nil {
			return nil, fmt.Errorf("item %d, key %q: %w", i, item.Key, err)
		}
	}
	for _, b := range buffers {
		b.pins += 2
	}
	return p, nil
}

// address returns by which address the process knows an item's bytes.
func (p *pins) address(i int) uint64 {
	return arenaBase + uint64(p.pages[i].first)*uint64(pageBytes) //nolint:gosec // positive
}

// unpin undoes one of the two.
func (p *pins) unpin() {
	p.arena.mu.Lock()
	defer p.arena.mu.Unlock()
	for _, pages := range p.pages {
		b := p.arena.mu.buffers[p.arena.search(pages.first+1)-1]
		b.pins--
		p.arena.release(b)
	}
}

// shared reports whether an item's pages still are in the arena.
func (p *pins) shared(i int) bool {
	p.arena.mu.Lock()
	defer p.arena.mu.Unlock()
	return len(runs(p.arena.mu.private, p.pages[i], true)) == 0
}

// detach takes the pages of items, of all if none is named, out of the arena on
// this side, so that neither the process sees what happens to them nor is it seen
// in them. With keep they hold what they held, else zeroes or anything. When the
// system has no mappings left, it fails, unless the arena is retired.
func (p *pins) detach(keep bool, items ...int) error {
	a := p.arena
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(items) == 0 {
		for i := range p.pages {
			items = append(items, i)
		}
	}
	for _, i := range items {
		for _, run := range runs(a.mu.private, p.pages[i], false) {
			var err error
			if keep {
				err = a.remap(run, a.fd, unix.MAP_PRIVATE)
			} else {
				err = a.remap(run, -1, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			}
			if err != nil && a.mu.retired != nil {
				return a.leave()
			}
			if err != nil {
				return fmt.Errorf("taking pages out of the arena: %w", err)
			}
			fill(a.mu.private, run, true)
		}
	}
	a.mu.loose++
	return nil
}

// leave takes all pages out of a retired arena, as they are. That splits no
// mapping, so it needs no more of them than there are. The caller holds mu.
func (a *arena) leave() error {
	all := extent{0, len(a.mu.private)}
	for _, run := range runs(a.mu.private, all, false) {
		if err := a.remap(run, a.fd, unix.MAP_PRIVATE); err != nil {
			return fmt.Errorf("taking all pages out of the arena: %w", err)
		}
	}
	// What the process writes to a page is seen until this side has written to it.
	for _, b := range a.mu.buffers {
		if b.pins == 0 {
			continue
		}
		for _, run := range runs(a.mu.private, b.extent, false) {
			for page := run.first; page < run.end(); page++ {
				atomic.AddUint32((*uint32)(unsafe.Pointer(&a.mem[page*pageBytes])), 0) //nolint:gosec // within the arena
			}
		}
	}
	fill(a.mu.private, all, true)
	a.mu.loose++
	return nil
}
