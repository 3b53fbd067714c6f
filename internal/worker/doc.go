// Package worker puts requests onto the slots of an engine, with what others
// have computed already in the slot and what this engine computes made known to
// others.
//
// A request for a completion waits for a slot, first come, first served. Its
// tokens are predicted by asking the engine to apply its template and to
// tokenize; the prediction serves to look pages up and to choose where to stop
// for publishing, never to answer. If the store has a longer prefix than the slot,
// and loading it is estimated to be quicker than computing it, the pages are read,
// checked, written as a slot file and restored. Pages that nobody has published
// are computed in steps that end at page boundaries, saved, cut and published
// while the engine goes on. Then the request itself is forwarded, with nothing
// changed but the slot.
//
// What a slot holds and how its rows came about is remembered in a line: its
// tokens, as far as they are known, and how many rows from the first on were
// prefilled in batches of 64 tokens or more, or restored. Only whole pages of
// those are published, under the keys of the tokens that the saved file itself
// names.
//
// Whatever fails on the way (a store, a page, a file, a prediction) costs time:
// the request is forwarded all the same. An engine that fails fails the request
// as it would without this package.
package worker
