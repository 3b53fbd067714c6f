// Package transfer is the data plane over TCP: it reads and writes the memory
// of a Mooncake segment owner by the Transfer Engine's TCP protocol, without
// that engine.
//
// A Pool asks its Resolver where an endpoint's data port is and which version
// of the protocol it speaks, and keeps connections to it. Each carries one
// request at a time. Bytes go from the socket into the caller's memory and from
// there into the socket: nothing is copied or kept here, and nothing touches
// that memory after the call.
//
// A request is 24 bytes, little-endian: size, address, operation (0 read, 1
// write, bit 7 for version 2), seven zeroes. What follows depends on the
// version:
//
//   - Version 2. A status of 8 bytes comes before the data of a read and after
//     a write has been applied.
//   - Version 1 (up to 0.3.11). A write has no answer, so a one-byte read on
//     the same connection follows it: the owner serves a connection in order, so
//     that its answer means that the write has been applied. The owner checks no
//     address. An address that its metadata does not list is therefore refused
//     here, since it would end the owner's process.
//
// # How it fails
//
// Bytes that a read delivers are those at the address, whatever is there now:
// the caller checks what it got. An owner that restarts gets another port, so a
// connection that fails makes the Pool forget the address, ask again and try
// once more; reads and writes can be repeated. Then the call fails with one of
// the errors below, within Options.DialTimeout or Options.StallTimeout, or when
// its context is done.
//
// A call that fails in the middle of a write resets its connection. Up to a
// socket buffer of that write may still be applied by the owner, some
// milliseconds later. Who gives the address to another object at once, risks
// that object's bytes; its reader finds that by checking them.
package transfer
