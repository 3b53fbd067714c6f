// Package room tells how much can still be written to a folder: what its file
// system has free, and of one in memory no more than the machine's memory and the
// limits of the process's control groups leave.
//
// It is a look at one moment, and others write too: who begins to write has to
// live with a full folder all the same.
package room
