// Package replay holds the simulator against a cluster: it plays a trace to both
// and compares, request by request, how many pages were not computed, and times to
// the first token.
//
// A prompt is made of its trace's block ids: each id stands for a block of tokens of
// its own, new in every run, so that two prompts have the same beginning in the
// cluster as they have in the trace, and nothing is in the store before. Requests
// follow each other: each is sent when the one before is answered and its pages
// are in the store. So hits do not depend on how fast the cluster is.
//
// # What can be compared
//
// The workers compute for themselves and publish (role mixed; ollamoon up
// --prefill 0), answer without a key, and their addresses, which the router's status
// has, can be reached from here. Something else that uses the cluster meanwhile makes
// both figures wrong.
//
// # Hits
//
// A hit is a page of a prompt that was not computed: what the engine says was
// cached, in whole pages. At least one token is computed, so a prompt that ends with a
// page has one page less. Both sides count alike. Before its answer a worker
// publishes those pages that leave 64 tokens to compute; so a conversation that
// goes on where it was may have a page more than one that goes on elsewhere, and
// the simulated router has to choose as the real one does for such a page to be
// counted alike (trace.Pages).
//
// # Costs
//
// Unless they are given, costs are measured just before: each worker computes a
// prompt of the trace's median length and loads what another one has computed.
// Fixed costs of a request are taken for the lookup. A speed for all lengths is
// what the simulator has; so times are as near as prompts are to the median one.
package replay
