// Package netlab makes machines that are joined by a network, for tests: each is a
// network namespace of Linux with an address of its own, joined by a veth pair to a
// bridge. The test itself stands at the bridge and reaches all of them. A machine's
// link can be given a rate (the token bucket filter, tbf), and machines can be cut
// off from each other without either being told: packets vanish, as behind a
// broken switch.
//
//	lab 10.77.0.1 ── bridge ─┬─ veth ── machine 10.77.0.2
//	                         ├─ veth ── machine 10.77.0.3
//	                         ...
//
// Main, which a test's TestMain calls, runs the tests in a network namespace of
// their own, so that nothing of the machine's network changes and nothing stays
// when they end. It needs the right to make namespaces: root, or users who may have
// user namespaces. Without it the tests fail, and say which command gives it.
//
// What runs on a machine is started by the test binary again (Machine.Command),
// which enters the namespace and becomes the program. So it dies with the test as
// any child of package supervise does.
package netlab
