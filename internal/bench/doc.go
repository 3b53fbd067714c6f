// Package bench measures what a store of KV pages gives: how fast one request's
// pages are published and how fast another request, which shares most of them,
// gets them back.
//
// Several contenders do the same work against one real Mooncake Store: this
// project's client over TCP and over shared memory, and the Mooncake wheel's own
// Python client. Each is a process of its own, and so is each server. They take
// turns, one reload or one round of publishing at a time, in an order that
// rotates, and the machine's limits (one loopback stream, a copy in memory, the
// seals) are measured as one more turn; a machine that becomes slower for a while
// does so for all. A contender times only its calls into the store's client.
// Clearing the buffers before them and comparing every loaded byte with what was
// published after them are outside the timing.
//
// A contender connects to a unix socket whose path it is given, reads calls from
// it and answers, JSON objects one a line (protocol.go, client.go, peer.py). When
// its input ends, because the run is over or was interrupted, it leaves the store
// and ends.
//
// With Options.Engine two llama-servers with a real model, behind the stand-in, then
// share a prompt's pages through the same store, next to one without it (engine.go,
// llama.go, completion.go). They get the run's prompts one at a time; what a client sees
// of the answers is timed and compared.
//
// RunTTFT measures times to the first token with five such servers, a stock one among
// them (ttft.go and its neighbours): prompts that are computed, that a slot holds, and
// that another process has computed; and what sharing adds where it gives nothing.
//
// Run and RunTTFT fail as a whole: an error of any part, a page that was not served or a
// byte that differs ends it, and then there are no results.
package bench
