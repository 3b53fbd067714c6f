// Package supervise runs one child process as a part of its parent.
//
// A Process has an output whose end is kept for messages, a way to stop it, and
// a channel that says when it is over. Whether and when to start it again is its
// owner's decision.
//
// On Linux the child dies with its parent, also when the parent is killed with
// SIGKILL: it is started by an operating-system thread that lives as long as it
// does and has asked the kernel for that (PR_SET_PDEATHSIG, which looks at
// threads). Elsewhere a shell watches the parent and kills the child.
//
// With Command.Loopback every listening port of the child is on loopback,
// whatever address it asks for. Programs of which some ports cannot be
// configured need that. The thread that starts the child carries a seccomp
// filter which hands each bind call to the parent (seccomp_unotify(2)); the
// parent turns the wildcard address in the child's memory into loopback's and
// lets the call go on. It needs Linux 5.5, no privileges, and leave to write to the
// child's memory, which a parent has by default. Where the kernel refuses, Start
// fails with ErrLoopback. This keeps an honest program's ports off the
// network; it is no sandbox.
package supervise
