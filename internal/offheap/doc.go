// Package offheap is memory for buffers that are large, many and soon given back,
// such as those of pages on their way between a store and an engine.
//
// On Go's heap such buffers stay resident until the garbage collector has run
// and its scavenger after it, and new ones come from the system a fault for each 4
// KiB, which takes as long as filling them several times over. Here they lie
// outside of it: what is given back is kept for the next buffer of its size, up
// to a bound and for a short while, and goes back to the system at once
// otherwise.
//
// Whoever gets a Buffer frees it; one that is not freed stays for good. Nothing
// may use its bytes after that: they may be another buffer's, or no memory at
// all.
package offheap
