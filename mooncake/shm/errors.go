package shm

import "errors"

// The outcomes that a caller treats differently. Errors of this package wrap
// one of them, or the context's error when the context ended the call.
var (
	// ErrUnsupported: the process speaks another version of the interface, runs as
	// another user, or this is not Linux. Trying again does not help.
	ErrUnsupported = errors.New("shm: not supported")
	// ErrUnavailable: there is no mooncake_client at that address, or it does not
	// take the arena.
	ErrUnavailable = errors.New("shm: no mooncake_client")
	// ErrSessionLost: the process has ended, restarted, dropped the arena or does
	// not answer. What a put was to store may be stored.
	ErrSessionLost = errors.New("shm: session lost")
	// ErrNotShared: an item's bytes are not whole pages of a Buffer of this
	// session that still is shared. Nothing was put or got.
	ErrNotShared = errors.New("shm: memory is not shared")
	// ErrFull: the arena has no room for a Buffer of that size.
	ErrFull = errors.New("shm: arena is full")
	// ErrClosed: the Session has been closed.
	ErrClosed = errors.New("shm: closed")
)

// Code is one of Mooncake's error codes, or 0. They are the master's.
type Code int32

// The codes after which a get has certainly ended.
const (
	codeInvalidParameters Code = -600
	codeInvalidKey        Code = -400
	codeInvalidReplica    Code = -702
	codeNotReady          Code = -703
	codeNotFound          Code = -704
	codeLeaseExpired      Code = -707
	codeChecksum          Code = -801
)

// hasEnded reports whether a get with this result moves no byte any more. Other
// codes say that a transfer failed; the process waits a minute for one and then
// leaves it alone.
func (c Code) hasEnded() bool {
	switch c {
	case 0, codeInvalidParameters, codeInvalidKey, codeInvalidReplica, codeNotReady,
		codeNotFound, codeLeaseExpired, codeChecksum:
		return true
	}
	return false
}
