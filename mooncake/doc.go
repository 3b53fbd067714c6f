// Package mooncake is a client of a Mooncake Store
// (https://github.com/kvcache-ai/Mooncake) in Go alone: it speaks the store's
// protocols itself, and needs neither cgo nor Mooncake's libraries.
//
//	client, err := mooncake.Dial(ctx, mooncake.Config{
//		Master:   "127.0.0.1:50051",
//		Metadata: "http://127.0.0.1:8080/metadata",
//	})
//	defer client.Close()
//	errs := client.BatchPut(ctx, []mooncake.Item{{Key: "k", Bytes: value}})
//	errs = client.BatchGet(ctx, []mooncake.Item{{Key: "k", Bytes: buffer}})
//
// A store has one master, which knows where objects are, and owners, processes
// that lend it memory. The client asks the master and moves bytes from and to the
// owners itself. Keys are strings, objects are bytes of at least one and at most
// an owner's memory; a get has to know the object's length, which BatchQuery tells.
//
// # Planes
//
// The control plane (packages rpc and structpack) is the master's RPC. Mooncake
// changes its messages with almost every release and does not say which it speaks,
// so Dial asks about no keys in one version after the other, newest first, until
// the types fit: 0.3.13, 0.3.12 or 0.3.11. A master that is replaced by one of
// another of these versions is noticed and spoken to in that.
//
// Objects go over one of two data planes. TCP (package transfer) reads and writes
// an owner's memory at the addresses that the master gave. Shared memory (package
// shm) hands objects to a mooncake_client process of the same machine, which serves
// the same store; it needs Linux. While it works, it is preferred; what it fails to do
// is done over TCP in the same call, and it is tried again after a while. Stats says
// which plane moved what.
//
// # Leases and wrong bytes
//
// An answer about a key gives its object a lease, 10 s unless the master was told
// otherwise, during which it is not evicted. A read starts only in the first half
// of a lease, else the client asks again, and what arrives after its end is not
// taken. A put gives no lease: its object can be evicted at once.
//
// All that does not prove that bytes are the object's. After a master's restart, a
// forced remove, or a put whose writer died at the wrong moment, reads succeed with
// other bytes, and whoever reaches an owner's port can write to its memory. Objects
// have to carry their own proof, and readers to check it.
//
// # Puts
//
// A put begins at the master, writes each replica and ends at the master; only then
// others see the object. Each call of BatchPut begins as a writer of its own, and what
// it cannot end it revokes, also when its context has ended: else the key would be
// blocked for 30 s. Bytes of an interrupted write may still arrive within some
// milliseconds, then in memory that can belong to another object.
//
// # How it fails
//
// Every call ends soon after its context does, and in bounded time without: each
// answer of the master within Config.CallTimeout, each owner that cannot be reached
// once a call within Config.ConnectTimeout, each that stops in the middle within
// Config.StallTimeout. Errors wrap one of this package's sentinels, or the context's
// error; a CodeError carries the code with which the store refused.
//
// The protocols were learnt from Mooncake's sources and from captures of its own
// client; testdata has one.
package mooncake
