package mooncake

import (
	"errors"
	"fmt"
)

// The outcomes that a caller treats differently. Errors wrap at most one of the
// first group, and always name the key or the call.
var (
	// ErrNotFound is returned for a key that has no object: never put, evicted,
	// removed, or on a master that restarted since.
	ErrNotFound = errors.New("mooncake: not found")
	// ErrNotReady is returned for a key whose object is being written at this
	// moment. It wraps ErrNotFound.
	ErrNotReady = fmt.Errorf("%w: still being written", ErrNotFound)
	// ErrNoReplica is returned when an object is there but has no replica of a
	// kind that the client reads: it is kept on disk only, or its memory speaks
	// another transport than TCP. It wraps ErrNotFound.
	ErrNoReplica = fmt.Errorf("%w: no replica in memory", ErrNotFound)
	// ErrExists is returned by a put of a key that has an object, or is being
	// written by someone. The object that is there is not changed.
	ErrExists = errors.New("mooncake: exists already")
	// ErrNoSpace is returned by a put when no owner has room for the object and
	// nothing can be evicted, when no owner has mounted memory yet, or when the
	// tenant's quota is used up.
	ErrNoSpace = errors.New("mooncake: no space")
	// ErrLength is returned when an object has another length than the buffer.
	// Nothing was read.
	ErrLength = errors.New("mooncake: other length")
	// ErrLeased is returned by a remove without force of an object that someone
	// asked for within the lease time.
	ErrLeased = errors.New("mooncake: object has a lease")
	// ErrLeaseExpired is returned by a get whose read took so long that the
	// object's memory may have been given to another one meanwhile.
	ErrLeaseExpired = errors.New("mooncake: lease expired")
	// ErrChecksum is returned when a mooncake_client that was told to check
	// objects found one damaged.
	ErrChecksum = errors.New("mooncake: checksum mismatch")
	// ErrBusy is returned by a remove of an object that is being copied or read
	// by the store itself.
	ErrBusy = errors.New("mooncake: object is busy")
	// ErrTenant is returned by a put for a tenant that a master with tenants does not
	// know.
	ErrTenant = errors.New("mooncake: tenant not registered")
	// ErrArgument is returned for what the store does not take: an empty key, an
	// empty object, a replica count of zero.
	ErrArgument = errors.New("mooncake: bad argument")
	// ErrUnavailable is returned when the master, or every owner of a replica,
	// cannot be reached, breaks off or does not answer in time.
	ErrUnavailable = errors.New("mooncake: unavailable")
	// ErrWireVersion is returned when the master speaks none of the protocol
	// versions that the client knows, or another one than when it was dialled. The
	// text names both sides. It does not pass by itself.
	ErrWireVersion = errors.New("mooncake: wire version")
	// ErrUnsupported is returned by Dial for a Config that asks for what the client
	// or the master's version does not have.
	ErrUnsupported = errors.New("mooncake: not supported")
	// ErrClosed is returned by calls on a Client that has been closed.
	ErrClosed = errors.New("mooncake: closed")
)

// A CodeError is a code with which a master or a mooncake_client answered.
// errors.Is finds the sentinel that the code stands for, if it has one.
type CodeError struct {
	Code int32
}

func (e *CodeError) Error() string {
	if c, ok := codes[e.Code]; ok {
		return fmt.Sprintf("code %d (%s)", e.Code, c.name)
	}
	return fmt.Sprintf("code %d", e.Code)
}

// Unwrap returns the sentinel of the code, or nil.
func (e *CodeError) Unwrap() error { return codes[e.Code].sentinel }

// Codes that the client itself looks at.
const (
	codeInvalid = -600
	codeExists  = -705
)

// codes are those of Mooncake's types.h that a client can meet.
var codes = map[int32]struct {
	name     string
	sentinel error
}{
	-1:          {"internal error", nil},
	-10:         {"buffer overflow", nil},
	-101:        {"segment not found", nil},
	-103:        {"client not found", nil},
	-200:        {"no available handle", ErrNoSpace},
	-400:        {"invalid key", ErrArgument},
	-500:        {"write failed", ErrUnavailable},
	codeInvalid: {"invalid parameters", ErrArgument},
	-601:        {"illegal client", nil},
	-700:        {"invalid write", nil},
	-701:        {"invalid read", nil},
	-702:        {"invalid replica", ErrNotFound},
	-703:        {"replica is not ready", ErrNotReady},
	-704:        {"object not found", ErrNotFound},
	codeExists:  {"object exists", ErrExists},
	-706:        {"object has a lease", ErrLeased},
	-707:        {"lease expired", ErrLeaseExpired},
	-708:        {"object has a replication task", ErrBusy},
	-710:        {"replica not found", ErrNotFound},
	-712:        {"replica is gone", ErrNotFound},
	-714:        {"replicas are in use", ErrBusy},
	-800:        {"transfer failed", ErrUnavailable},
	-801:        {"checksum mismatch", ErrChecksum},
	-900:        {"RPC failed", ErrUnavailable},
	-901:        {"RPC timed out", ErrUnavailable},
	-1010:       {"unavailable in current status", ErrUnavailable},
	-1011:       {"unavailable in current mode", ErrUnavailable},
	-1012:       {"not supported", ErrUnsupported},
	-1700:       {"tenant quota exceeded", ErrNoSpace},
	-1701:       {"tenant not registered", ErrTenant},
}

// codeError returns nil for code 0.
func codeError(code int32) error {
	if code == 0 {
		return nil
	}
	return &CodeError{Code: code}
}
