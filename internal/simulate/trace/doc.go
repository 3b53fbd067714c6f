// Package trace reads what was asked of a cluster: one request a line, in order of
// time, each with the names of the blocks that its prompt begins with. The form is
// that of Mooncake's traces:
//
//	{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 2353, 2354]}
//
// timestamp is in milliseconds from the start, lengths are in tokens. Each id names
// a block and all that stands before it in its prompt, so that equal ids are
// reusable. All blocks have one number of tokens, but for the last of a prompt,
// which may be shorter: a prompt of n tokens has as many ids as blocks have begun
// in it. The number is not in the file; Read infers it, and holds every line
// against it.
//
// Cut turns blocks into the pages of a worker. Two prompts that differ within a
// block may still share pages at its start; a trace cannot say so, and they are
// taken as different.
//
// # From a request log
//
// A stand-in that is started with --ollamoon-request-log FILE appends a line for
// each prompt that it could name, when its answer has ended:
//
//	{"time_ms": 1764607000123, "prompt_tokens": 600, "output_tokens": 48, "page_tokens": 256, "hash_ids": ["9f86d081884c7d65", "60303ae22b998861"]}
//
// time_ms is when the request came, in milliseconds of Unix time; hash_ids are the
// first 16 hexadecimal digits of its full pages' keys. Convert makes a trace of
// one such log or of several workers' logs behind one another: it sorts by time,
// counts from the first, numbers the keys, and gives the last page, when it is not
// full, a number of its own. A key says whether two prompts are equal and,
// to whoever knows the namespace and can guess a prompt, that it was asked. The
// log has no text.
package trace
