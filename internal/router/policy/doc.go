// Package policy decides which worker serves a request. It has no clock, no
// goroutine and no connection: what is known of the workers and of the request
// comes in, a choice and its reason come out. The router acts on the choices; a
// simulation can take them on a trace.
//
// Ours, LeastTime, expects of each worker when it would have completed the
// request: the prompt tokens ahead of it, the tokens it must load and compute
// itself, the tokens it generates beside others. Through the store every worker
// is able to load what any has published, so what a worker holds itself saves a
// load and seldom a computation, and affinity is a tie-break: a conversation stays
// with its worker while that costs no more than a part of the time that the
// request takes alone. By that part, and by that time, the imbalance that
// affinity can cause is bounded.
//
// The others are what routers do otherwise, for comparison: RoundRobin,
// LeastOutstanding, and CacheAffinity, which knows of the workers' own caches and
// of no store.
//
// Next applies a policy to a queue: a request may wait for the worker that would
// complete it first while later ones go elsewhere, but only so many of them, so
// that none starves. Places remembers which worker has seen which prefix.
package policy
