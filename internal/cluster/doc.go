// Package cluster runs a real Mooncake Store on this machine, for measurements
// and tests: one mooncake_master and one or more mooncake_client, the owners of
// the memory in which objects lie, from the programs of Mooncake's wheel.
//
// Unless Config.On says otherwise, all of it listens on 127.0.0.1 and on ports that
// were free:
//
//	the master's RPC port, metrics port, and HTTP metadata server
//	an owner's RPC port (--port), whose number also names its unix socket
//	an owner's data port and handshake port, both at random
//
// For some of them Mooncake has no setting: the embedded metadata server, an
// owner's data and handshake ports, and in 0.3.11 the metrics port listen on all
// interfaces. So the programs run with supervise.Command.Loopback. Where the
// system refuses that, Start fails with supervise.ErrLoopback unless Config.Exposed
// or OLLAMOON_EXPOSE=1 allows these ports to be open: whoever reaches the data
// port reads and writes the store's memory.
//
// A cluster is ready when a put works: the master serves, it lists a segment of
// each running owner, the metadata to reach the segment is there, and the owner's
// RPC port answers. A program that ends before that is started again on other
// ports, a few times, since a port can be taken between its choice and its use;
// then the error has the program's last output.
//
// The programs die with this process, however it ends.
package cluster
