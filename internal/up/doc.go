// Package up runs a cluster on one machine: a Mooncake Store, prefill workers,
// decode workers and a router in front of them, each a child process.
//
// New makes a plan: which children there are, with which arguments, threads and
// ports. Making it has no effects. Run starts the children in the order in which
// they need each other (store, prefill workers, decode workers, router), each when
// those before it are ready, and says the one address at which the cluster is
// used. When its context is done it stops them in the opposite order: the router
// first lets running requests finish.
//
// A child that dies is started again after a pause that doubles with each death in
// a row, and that is said. One that dies too often in a row is given up, with its
// last output. The cluster goes on as long as it has a router and a decode worker:
// what prefill workers and the store did, decode workers do themselves. Otherwise
// Run ends with an error that wraps ErrGivenUp.
//
// All threads that the engines compute with are at most as many as asked for,
// since those of ggml spin while they wait; only that each engine has one comes
// before that.
//
// Workers and router know each other by a secret, and pages of the store that is
// started here are sealed with a key. Both are made for one run and lie in a
// folder that only the user can enter. All but the router listens on loopback. No
// child outlives this process, however it ends; a folder that a killed process has
// left is removed by the next.
package up
