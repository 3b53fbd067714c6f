package mooncake

import (
	"fmt"
	"sync"

	"ollamoon/internal/offheap"
)

// A Buffer is memory from Alloc.
type Buffer struct {
	bytes []byte
	free  func()
	once  sync.Once
}

// Bytes is the memory, of the size asked for. Its contents are undefined at
// first.
func (b *Buffer) Bytes() []byte { return b.bytes }

// Free gives the memory back. Nothing may use it then. Only the first call does
// anything.
func (b *Buffer) Free() { b.once.Do(b.free) }

// Alloc returns a buffer. While shared memory is in use it
// lies in memory that the mooncake_client also has, so that objects go there and
// back without a copy; over TCP all memory is the same. A buffer of
// 64 KiB or more starts on a page. Buffers stay usable, as
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
	b := offheap.New(size)
	return &Buffer{bytes: b.Bytes(), free: b.Free}, nil
}
