// Package standin runs in the place of llama-server: it takes its arguments,
// starts the real one behind it, serves what that would serve and shares its
// prompt cache (package worker) through a store.
//
// What it does is meant to be invisible. The engine's standard output is passed
// on as it is, and so is its standard error, but that the address in its log is
// the public one; lines of this program start with "ollamoon: " and stand
// between the engine's. Signals go to the engine, which ends in its own way, and
// this process ends as it did: with its exit code, or by the same signal. Killed
// with SIGKILL it takes the engine with it. Until the engine has loaded its model
// and has been calibrated, requests are answered as a loading llama-server
// answers them.
//
// A run that cannot share (no model, embeddings, help) and one that cannot be
// stood in for (the port is taken, a certificate cannot be read) becomes the
// real binary's, with the same arguments and environment, so that it fails or
// works in the way that is known of it. When the engine runs and its cache cannot
// be shared, every request is passed on, and the log and the status at
// /ollamoon/status say why.
package standin
