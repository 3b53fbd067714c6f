// Package store is the contract between those who share pages and the places
// that keep them. The backends are in the packages below it; package storetest
// holds each of them to this contract with one suite.
//
// A store maps keys to objects: sealed pages (package page), or plain payloads
// for exchange with Mooncake pull request 2800. It does not look into them.
//
// A store is a cache, and the contract is a cache's:
//
//   - BatchExist is a hint. What was there may be evicted, expired, replaced or
//     unreadable when it is read.
//   - An object that is there stays as it was put: a put of a present key
//     changes nothing and succeeds.
//   - A read may, on some backends, return bytes that are not the object's, with
//     no error. The caller checks the seal, and calls Discard for what it finds
//     bad.
//   - The items of a batch are in the order of a prompt's pages, where one is of
//     use only with all before it. A backend that makes room takes an earlier
//     item of a batch for the later used one.
//   - A store that fails costs its caller time, bounded by the context, and never
//     more than that.
package store

import (
	"context"
	"errors"
	"fmt"

	"ollamoon/internal/offheap"
)

// MaxKeyBytes is the length of the longest key.
const MaxKeyBytes = 1024

// A Store keeps objects by key. All methods are safe for concurrent use and
// return soon after their context is done, with errors that wrap its Err.
//
// A key has 1 to MaxKeyBytes bytes, an object at least one. A backend may refuse
// other keys too, such as those that are not UTF-8; a refused key is ErrBadKey
// to BatchPut and BatchGet, and has no object.
//
// Buffers belong to the caller again when the call returns, also after an
// error: nothing writes to them or reads from them later.
type Store interface {
	// BatchExist reports for each key whether its object is there. An error means
	// that nothing is known of any.
	BatchExist(ctx context.Context, keys []string) ([]bool, error)

	// BatchPut stores objects under keys that have none, whole or not at all.
	// The result has one element an item: nil when the object was stored,
	// ErrExists when the key had one already, else what failed. Of a key's
	// several puts at once, or in one batch, one stores its object; the others are
	// ErrExists, or nil where the backend cannot tell.
	BatchPut(ctx context.Context, items []Item) []error

	// BatchGet reads objects into the items' buffers. The result has one element
	// an item: nil when the buffer holds the whole object, else what failed; the
	// buffer's contents are undefined then. An object of another length than the
	// buffer is ErrLength. A key may stand in a batch more than once.
	BatchGet(ctx context.Context, items []Item) []error

	// Discard removes the object of a key that was found bad, so that the key can
	// be put again. Discarding a key without an object succeeds.
	Discard(ctx context.Context, key string) error

	// Alloc returns a buffer that the store reads into and writes from with the
	// fewest copies it knows of. Any other memory works too.
	Alloc(size int) (Buffer, error)

	// Close ends calls in progress, with ErrClosed, waits for them and releases
	// everything but the Buffers. Later calls return ErrClosed; another Close does
	// nothing.
	Close() error
}

// An Item is a key and the buffer that holds its object, or is to receive it.
type Item struct {
	Key   string
	Bytes []byte
	// Arrived, if not nil, may be called by BatchGet as the object comes: the first
	// n bytes of the buffer are there and stay as they are. A read that begins anew
	// says so with 0. Calls for one item follow one another, and end before Done.
	Arrived func(n int)
	// Done, if not nil, is called by BatchGet once for an item whose result is
	// nil, when its buffer holds the whole object and before BatchGet returns; so
	// the caller can work on it while others still arrive. For an item that fails
	// it is not called. Calls may come from several goroutines at once, in any
	// order.
	Done func()
}

// A Buffer is memory from Alloc.
type Buffer interface {
	// Bytes is the memory, of the size asked for. Its contents are undefined at first.
	Bytes() []byte
	// Free gives the memory back. Nothing may use it then. Only the first call
	// does anything.
	Free()
}

// The outcomes that a caller treats differently. Backends wrap them.
var (
	// ErrNotFound: the key has no object.
	ErrNotFound = errors.New("store: not found")
	// ErrExists: the key has an object, or someone is writing it at this moment.
	ErrExists = errors.New("store: exists already")
	// ErrLength: the object has another length than the buffer, or an item has no
	// bytes.
	ErrLength = errors.New("store: other length")
	// ErrFull: there is no room for the object, and none could be made.
	ErrFull = errors.New("store: full")
	// ErrReadOnly: objects can be read, but not put or discarded.
	ErrReadOnly = errors.New("store: read-only")
	// ErrUnavailable: the store, or the part of it that keeps the object, cannot
	// be reached or does not work. Asking again soon will likely fail too.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrBadKey: the key is empty, too long, or has bytes that the backend cannot
	// keep.
	ErrBadKey = errors.New("store: bad key")
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("store: closed")
)

// CheckItem returns what a backend finds wrong with an item before it looks for
// the object: an error that wraps ErrBadKey or ErrLength, or nil.
func CheckItem(item Item) error {
	if err := CheckKey(item.Key); err != nil {
		return err
	}
	if len(item.Bytes) == 0 {
		return fmt.Errorf("%w: no bytes", ErrLength)
	}
	return nil
}

// CheckKey returns an error that wraps ErrBadKey for a key that no store takes.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrBadKey)
	case len(key) > MaxKeyBytes:
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrBadKey, len(key), MaxKeyBytes)
	}
	return nil
}

// Memory is a Buffer for backends to which all memory is the same.
func Memory(size int) Buffer { return offheap.New(size) }

// Errors returns n times err: the result of a batch that failed as a whole.
func Errors(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
