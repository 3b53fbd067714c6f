package shm

import (
	"time"

	"ollamoon/mooncake/structpack"
)

// Options say which process to share memory with, and how much.
type Options struct {
	// Addr is the host:port of the mooncake_client's RPC port. The port also
	// names its unix socket.
	Addr string
	// ArenaBytes bounds the memory of all Buffers. Default 256 MiB. It is address
	// space at first: see KeepBytes.
	ArenaBytes int64
	// KeepBytes is how much memory that was used and is free the arena keeps, so
	// that it need not be faulted in again. Default 32 MiB.
	KeepBytes int64
	// AnyUser also accepts a process that runs as another user than this one or
	// root. Any user can take the name of the socket.
	AnyUser bool

	// ConfigType and WriteConfig are the ReplicateConfig of puts, in the form of
	// the version that the process speaks.
	ConfigType  structpack.Type
	WriteConfig func(*structpack.Writer)

	// OpenTimeout bounds Open. Default 3 s.
	OpenTimeout time.Duration
	// PingInterval is the time between two signs of life. Default 2 s; the process
	// wants one every 10 s.
	PingInterval time.Duration
	// CallTimeout is how long the process may take for an answer until the session
	// counts as lost. Default 30 s.
	CallTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.ArenaBytes <= 0 {
		o.ArenaBytes = 256 << 20
	}
	if o.KeepBytes <= 0 {
		o.KeepBytes = 32 << 20
	}
	if o.OpenTimeout <= 0 {
		o.OpenTimeout = 3 * time.Second
	}
	if o.PingInterval <= 0 {
		o.PingInterval = 2 * time.Second
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 30 * time.Second
	}
	return o
}

// An Item is a key and the bytes of its object, or where they are to go. Bytes
// begin at a page's begin in a Buffer and end at a page's end or the Buffer's, so
// that no page belongs to two items.
type Item struct {
	Key   string
	Bytes []byte
}

// A Result is what became of an Item.
type Result struct {
	Code  Code // 0 when it was put or got
	Bytes int  // that a get has read: the object's length
}

// Stats are a Session's state and counts.
type Stats struct {
	Allocated int64 // bytes of Buffers not yet freed, in whole pages
	Resident  int64 // bytes of the arena that were used and not given back
	Detached  int64 // calls whose memory was taken out of the arena
}
