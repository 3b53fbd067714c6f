// Package lookup tells which pages of a prompt a store has, and where two prompts
// part: their first token that differs and its page, from which on they share
// nothing.
//
// It looks and changes nothing. What a store says is there may be gone, or found
// bad, when it is read. Of a model with a sliding window it asks for the pages of
// the layers that attend to everything; a worker needs the window's besides.
package lookup
