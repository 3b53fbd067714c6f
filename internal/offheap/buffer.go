package offheap

import (
	"sync"
	"time"
)

const (
	// keptBytes bounds what is kept of all buffers that were given back.
	keptBytes = 64 << 20
	// keptFor is how long that is, from the last one on.
	keptFor = 10 * time.Second
	// minBytes is the smallest buffer for which all this is worth it.
	minBytes = 64 << 10
)

// A Buffer is memory. Free may be called more than once.
type Buffer struct {
	bytes []byte
	once  sync.Once
	from  *pool // nil for memory on Go's heap
}

// Bytes is the memory, which begins on a page of the system when it is of 64 KiB
// or more. Its contents are undefined at first.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Free gives the memory back.
func (b *Buffer) Free() {
	if b.from != nil {
		b.once.Do(func() { b.from.put(b.bytes) })
	}
}

// New returns a buffer of a size. Where the system has no memory of this kind it
// is on Go's heap.
func New(size int) *Buffer { return shared.get(size) }

// shared is the process's pool.
var shared = pool{most: keptBytes, wait: keptFor}

// A pool is what is kept.
type pool struct {
	most int
	wait time.Duration
	mu   struct {
		sync.Mutex
		kept    [][]byte // the oldest first
		bytes   int
		dropper *time.Timer
	}
}

func (p *pool) get(size int) *Buffer {
	if size < minBytes {
		return &Buffer{bytes: make([]byte, size)}
	}
	if b := p.take(size); b != nil {
		return &Buffer{bytes: b, from: p}
	}
	b, err := mapped(size)
	if err != nil {
		return &Buffer{bytes: make([]byte, size)}
	}
	return &Buffer{bytes: b, from: p}
}

// take returns kept memory of a size, the one used last, or nil.
func (p *pool) take(size int) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.mu.kept) - 1; i >= 0; i-- {
		if b := p.mu.kept[i]; len(b) == size {
			p.mu.kept = append(p.mu.kept[:i], p.mu.kept[i+1:]...)
			p.mu.bytes -= size
			return b
		}
	}
	return nil
}

func (p *pool) put(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.kept = append(p.mu.kept, b)
	p.mu.bytes += len(b)
	for p.mu.bytes > p.most {
		p.drop()
	}
	if p.mu.dropper == nil {
		p.mu.dropper = time.AfterFunc(p.wait, p.empty)
		return
	}
	p.mu.dropper.Reset(p.wait)
}

// drop gives the oldest memory back to the system. The caller holds the lock.
func (p *pool) drop() {
	oldest := p.mu.kept[0]
	p.mu.kept = p.mu.kept[1:]
	p.mu.bytes -= len(oldest)
	unmap(oldest)
}

// empty gives everything back to the system.
func (p *pool) empty() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.mu.kept) > 0 {
		p.drop()
	}
	p.mu.kept = nil
}
