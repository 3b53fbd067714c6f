// Package mooncake is a Mooncake Store as a store: it gives the client of package
// ollamoon/mooncake the contract of package store.
//
// The store is shared by machines, keeps objects in memory and loses them when
// the owner of that memory ends. Its reads are those of which the contract warns:
// what they return may be other bytes than the object's, with no error.
//
// # How it fails
//
// Every error but a context's own wraps the sentinel of package store that it
// means and, below, the client's. What is not about one key, such as a master that
// speaks another version or a tenant that is not registered, is
// store.ErrUnavailable. A read that outlasted its lease is store.ErrNotFound, since
// the object may be gone. An object that the store itself found damaged is
// removed and is store.ErrNotFound too.
//
// Of several puts of a key at once, those that go through shared memory may all
// say that they stored it: the process that shares the memory takes a key that is
// there, or is being written, for success.
//
// Discard removes an object whatever leases it has. Nobody can remove one that is
// being written: its key is free when the writer ends it, or when the master gives
// up on it, after 30 s by default.
package mooncake
