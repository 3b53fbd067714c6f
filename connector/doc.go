// Package connector is the policy between a runtime that computes KV pages and
// a store that keeps them: which pages of a prompt to load, which to publish,
// and what to believe of what comes back.
//
// It completes the connector of Mooncake pull request 2800 and keeps its
// semantics: a runtime hands over a prompt's tokens and one buffer a page.
// LoadCachedPrefix fills the buffers of the longest run of pages from the
// prompt's start that the store has; StoreComputedPrefix publishes those that
// the store lacks and leaves the others as they are. Pages are named by package
// prefix from the tokens alone, so workers agree without talking.
//
// Each object is sealed (package page), and a load checks every seal. A page
// that fails is read once more, with whatever the backend knows of it by then;
// if it still fails, it is discarded, so that the next publisher can put a good
// one. The run ends before it. Without a Sealer the objects are bare payloads,
// as pull request 2800 writes them, and nothing is checked but their length.
//
// A failing store is an error of the call or ends the run early; the runtime
// computes the rest. How long a call may take is the context's to say.
package connector
