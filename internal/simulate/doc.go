// Package simulate plays a trace (package trace) to a cluster that is not there:
// workers, their engines and caches, a store and a router, on a clock of its own.
// The router is the real one's policy (package policy), with its queue and its
// memory of places; what takes time is a model (Costs).
//
// # The model
//
// A request waits in the router's queue until the policy gives it to a worker with
// a free slot. The worker looks for the prompt's leading pages in its own cache
// and, where there is one, in the store, and loads those of the store when that
// takes less time than to compute what they have beyond its own. Loads of one
// worker follow each other on its link. Then the engine restores, computes and
// saves, one prompt after the other, and generates (see engine). The first token is
// there when the prompt is. Saved pages go to the store, one request after the
// other on the worker's link, and are there when all of the request's have
// arrived.
//
// A worker's own cache stands for its slots and its engine's memory of
// conversations. What is there costs nothing to use, which favours policies
// without a store. It is looked into again when the prompt's turn comes: another
// of the same beginning may have been computed in between. Saves are
// those of a worker that publishes in steps which double: together they copy up to
// about twice the prompt.
//
// Prefill and decode have one speed each, whatever the length; contexts always
// fit; links of different workers do not disturb each other; nobody leaves.
//
// # The load
//
// The trace's clock is scaled so that prompts arrive with Load times as many
// tokens a second as all engines compute when they compute everything and generate
// nothing. The clock of a trace may be coarse; requests of one tick are spread over
// it at random, by the seed. A conversation goes on when the answer before has
// ended, as it did when the trace was made: a request whose prompt begins with all
// whole pages of an earlier one does not come before that is over.
//
// The same options give the same outcome, on any machine and beside any other run.
package simulate
