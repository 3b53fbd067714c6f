// Package remote asks a running llama-server, and the stand-in in its place, over
// HTTP: what it shares, and what it makes of a prompt.
//
// An answer other than 200 is a StatusError, one from a server that is no stand-in
// ErrStock. Nothing here is asked twice.
package remote
