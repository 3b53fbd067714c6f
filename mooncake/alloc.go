package mooncake

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// A Buffer is memory from Alloc.
type Buffer struct {
	bytes []byte
	free  func()
	once  sync.Once
}

// Bytes is the memory, of the size asked for, zeroed at first.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Free gives the memory back. Nothing may use it then. Only the first call does
// anything.
func (b *Buffer) Free() { b.once.Do(b.free) }

// Alloc returns a buffer that starts on a page. While shared memory is in use it
// lies in memory that the mooncake_client also has, so that objects go there and
// back without a copy; over TCP all memory is the same. Buffers stay usable, as
// ordinary memory, after shared memory has failed and after Close, until Free.
func (c *Client) Alloc(size int) (*Buffer, error) {
	if size < 0 {
		return nil, fmt.Errorf("%w: allocating %d bytes", ErrArgument, size)
	}
	if l := c.shared.use(); l != nil {
		if b, err := l.session.Alloc(size); err == nil {
			return &Buffer{bytes: b.Bytes(), free: b.Free}, nil
		}
	}
	return &Buffer{bytes: pageAligned(size), free: func() {}}, nil
}

// pageAligned returns zeroed memory on Go's heap that starts on a page.
func pageAligned(size int) []byte {
	page := os.Getpagesize()
	b := make([]byte, size+page-1)
	start := 0
	if over := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % uintptr(page)); over > 0 { //nolint:gosec // only its value is looked at
		start = page - over
	}
	return b[start : start+size : start+size]
}
