// Package slotfile cuts the slot files of llama.cpp's server into pages and
// makes slot files from pages.
//
// llama-server writes a slot's KV cache to a file (POST /slots/ID?action=save)
// and reads one back (action=restore). A file names its tokens and then, for
// each section of the cache, the cells and their rows; Parse finds out where
// everything is and keeps nothing of the rows, Section.ReadPage copies the rows
// of one page from the file into a page's payload, and Write makes a file of
// payloads.
//
// A page's payload is the rows of its tokens and nothing else: for each layer
// the keys, one row a token; then for each layer the values, one row a token, or
// transposed as the engine keeps them without flash attention, one run of a
// page's tokens for each element. Types, sizes and counts are the Shape's, which
// a worker learns from a file of its own engine. So no header that another
// machine wrote reaches an engine: what an engine rejects or mistakes (a false
// cell count makes it allocate without bound) is written here.
//
// The format is that of llama_context::state_seq_save_file and
// llama_kv_cache::state_write (llama.cpp, src/llama-context.cpp and
// src/llama-kv-cache.cpp), version 2, little-endian:
//
//	u32 magic "ggsq", u32 version, u32 n, n * i32 tokens
//	for each section
//	  u32 streams; for each stream
//	    u32 cells; nothing more when it is 0
//	    for each cell: i32 position, u32 1, i32 sequence
//	    u32 1 if values are transposed, u32 layers
//	    for each layer: i32 type, u64 row bytes, rows of keys
//	    for each layer: i32 type, u64 row bytes, rows of values
//	                or: i32 type, u32 element bytes, u32 elements, values
//
// The tokens are either themselves or, in newer servers, -1, 1, their count,
// they, and 0 (no media). A plain cache has one section. A cache with a sliding
// window has two: the layers with the whole context, and those with a window,
// whose cells are the last ones only and stand in any order.
//
// What cannot be cut is an error that wraps ErrUnsupported and says why:
// recurrent and hybrid states, cells with positions of several dimensions, media
// in the prompt. A damaged file is one that wraps ErrFormat. Neither makes Parse
// hold more than a few times the memory of the tokens that it was allowed to
// expect.
package slotfile
