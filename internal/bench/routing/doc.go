// Package routing measures what a router adds between a client and a worker: how
// much later the first byte of a streamed answer comes, and what memory idle
// streams take.
//
// Client, router and worker are processes of their own. The worker answers at
// once, so that what is measured is the router and the machine's TCP. Each request by way of the router is paired with one straight to the worker,
// in turn, over connections that are kept.
package routing
