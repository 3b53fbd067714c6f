// Package shm is the data plane between processes of one host: it puts and gets
// objects through memory that it shares with a mooncake_client process, as
// Mooncake's "dummy" clients do. That process copies between this memory and
// its own segment, or another owner's, and talks to the master. It is for Linux;
// elsewhere Open returns ErrUnsupported.
//
// A Session is an arena of shared memory and its registration with one process.
// Buffers are allocated from the arena. Put and Get take items whose bytes lie in
// them, and cost one call each:
//
//	session, err := shm.Open(ctx, shm.Options{Addr: "127.0.0.1:50052", ...})
//	buffer, err := session.Alloc(size)
//	results, err := session.Get(ctx, []shm.Item{{Key: key, Bytes: buffer.Bytes()}})
//
// # The interface of mooncake_client (0.3.11 to 0.3.13)
//
// The arena is a memfd. It is handed over on the abstract unix socket
// "@mooncake_client_<port>.sock": a uint32 0 (register), then, with the memfd
// attached, 40 bytes: the client's UUID, the address by which the client will
// name the arena's begin, its size, an int32 device -1, a bool "local buffer"
// (false: the process shall not allocate from it), three bytes of padding. The
// answer is an int32, 0 when all is well. The rest are RPCs of
// mooncake::RealClient at that port.
//
// A put of a key that has an object, or that another client is writing, is
// reported as a success: the process hides the difference. Who needs it asks the
// master before and after. A get into a buffer that is too small is -600, and so
// is every call without a registration.
//
// The process adds the arena to the memory that its Transfer Engine offers: who
// reaches the data port of that process reads and writes the arena as he reads
// and writes the store's memory.
//
// # What a session costs
//
// Pages of the arena exist from their first use on, and both processes fault
// each of them in once; memory that was used before is therefore faster, and
// Alloc prefers it. A Buffer is zeroed when it is allocated, if its pages were
// used before. What has been free for half a minute is given back to the
// system, but for Options.KeepBytes.
//
// # How it fails
//
// The process drops a registration 10 s after the last ping, and forgets it when
// it restarts; a Session pings and asks whether its arena is known. When it is
// not, when an answer stays away or cannot be understood, the Session is lost: all
// its calls return ErrSessionLost from then on, and the caller goes on without it
// and may Open another. Buffers stay good memory until they are freed.
//
// A call whose context ends, or whose session is lost, returns at once, while the
// process may still be copying. So that nothing else meets that copy, the pages of
// such a call are taken out of the arena on this side, within the call: those of a
// get are replaced by fresh ones, those of a put become a private view of the
// same bytes. The process goes on with pages that nobody looks at. They return to
// the arena when the Buffer has been freed and the process has answered; until
// then, and for that Buffer for good, they are not shared (ErrNotShared). A get
// that the process reports as a failed transfer ends the Session for the same
// reason: the process may have given up on a copy that still goes on.
package shm
