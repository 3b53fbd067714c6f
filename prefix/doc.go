// Package prefix names the pages of a prompt's KV cache by what determines
// their contents.
//
// A prompt's tokens are cut into full pages of a fixed number of tokens. Each
// page is named by a SHA-256 hash chain, so that a page's hash stands for every
// token from the start of the prompt to the end of that page:
//
//	seed = SHA-256("mooncake-ollama-kv" NUL model)
//	h[0] = SHA-256(seed   || tokens of page 0, each as big-endian 32 bits)
//	h[i] = SHA-256(h[i-1] || tokens of page i)
//	key  = keyPrefix "/" model "/" hex(first 16 bytes of h[i])
//
// The scheme is the one of Mooncake pull request 2800; the golden vectors in
// testdata hold it in place. Equal prefixes have equal keys in every process;
// one differing token changes the key of its page and of all later ones. A last
// page that is not full has no key.
//
// The model of the chain is the place for everything else that changes what a
// page holds: see Namespace.
package prefix
