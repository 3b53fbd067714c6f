// Package page says what a page of KV cache is: how many bytes a layout gives
// it, which sections it has, and the seal by which a page read from a store
// proves what it is.
//
// A store keeps one object for each section of a page: the payload, whose
// meaning is the runtime's, and behind it a trailer of fixed size, the seal.
// Nothing between a writer and a reader is trusted: the memory of a Mooncake
// segment can be reused while a descriptor to it is still held, a write can be
// published that never took place, and whoever reaches an unauthenticated
// store can write to it. So a reader checks the seal before any byte is used.
//
// The trailer, little-endian, 80 bytes:
//
//	offset size
//	     0    4 magic "OMPG"
//	     4    1 version, 1
//	     5    1 section
//	     6    1 kind of sum: 1 XXH3-128, 2 keyed BLAKE3
//	     7    1 zero
//	     8    8 payload length in bytes
//	    16   32 the page's hash (package prefix)
//	    48   32 the sum over payload and the 48 bytes above; an XXH3-128 sum is
//	            16 bytes, big-endian, then 16 zeroes
//
// XXH3 (github.com/Cyan4973/xxHash, doc/xxhash_spec.md) finds accidents at the
// speed of memory. BLAKE3 (the BLAKE3 paper, O'Connor et al. 2020) in keyed mode
// also keeps out whoever does not know the key.
package page
