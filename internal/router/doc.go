// Package router is one endpoint over a set of workers: llama-servers, or Ollama
// servers. Package policy decides which worker serves a request; this package
// knows the workers, keeps the queue and moves the bytes.
//
// A request that computes waits until a worker has a free slot for it, in a queue
// of bounded length; when that is full, it is answered with 503 and Retry-After.
// Its prompt's leading text, in blocks of bytes and without tokenizing, says which
// workers have seen it. Other requests go to any healthy worker, and what lists
// things (models, what is loaded) is merged. What changes a server (pull, delete, a
// slot's contents) has no meaning for a set of them and is answered with 501.
//
// What a worker answers passes through as it comes: status, headers, bytes. As long
// as nothing has been sent to the client, a worker that cannot be reached, dies,
// is taken out, or answers 502, 503 or 504 is replaced by another. Afterwards a
// stream is ended by one error in its own format, and any other answer is broken
// off. When the client goes, the worker's request is cancelled.
//
// Workers are asked for their health at intervals and taken out when they fail.
// Those that share pages of one model must do so under one namespace, all with one
// page size: the router does not start otherwise, and does not use a worker that
// comes later with another.
package router
