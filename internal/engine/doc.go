// Package engine is a llama-server process and what a stand-in asks of it:
// where its user wants it served, its start and end, its control calls, and
// whether its slot files can be cut into pages.
//
// The process listens on a socket in a folder of its own, so that nobody but
// the stand-in reaches it, and saves slots into that folder or into another of
// the stand-in's.
package engine
