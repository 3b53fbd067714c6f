//go:build !linux

package shm

import "context"

// A Session exists on Linux only.
type Session struct{}

// Open returns ErrUnsupported.
func Open(context.Context, Options) (*Session, error) { return nil, ErrUnsupported }

// Ports returns ErrUnsupported.
func Ports() ([]int, error) { return nil, ErrUnsupported }

// Alloc returns ErrUnsupported.
func (*Session) Alloc(int) (*Buffer, error) { return nil, ErrUnsupported }

// Shared returns false.
func (*Session) Shared([]byte) bool { return false }

// Put returns ErrUnsupported.
func (*Session) Put(context.Context, []Item) ([]Result, error) { return nil, ErrUnsupported }

// Get returns ErrUnsupported.
func (*Session) Get(context.Context, []Item) ([]Result, error) { return nil, ErrUnsupported }

// Done returns a channel that never closes.
func (*Session) Done() <-chan struct{} { return nil }

// Err returns ErrUnsupported.
func (*Session) Err() error { return ErrUnsupported }

// Stats returns nothing.
func (*Session) Stats() Stats { return Stats{} }

// Close returns nil.
func (*Session) Close() error { return nil }

// A Buffer exists on Linux only.
type Buffer struct{}

// Bytes returns nil.
func (*Buffer) Bytes() []byte { return nil }

// Free does nothing.
func (*Buffer) Free() {}
