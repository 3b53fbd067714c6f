package cluster

import (
	"net"
	"strconv"

	"ollamoon/internal/supervise"
)

// The programs' names, besides owner-N.
const (
	masterName   = "master"
	metadataName = "metadata"
)

// A Place is where a program runs: this machine's loopback, or a network namespace
// that stands for a machine of its own.
type Place struct {
	// Address is the one that the program listens on, and by which the others and this
	// process reach it.
	Address string
	// Command turns the program's command into one that runs there; nil changes
	// nothing.
	Command func(supervise.Command) supervise.Command
}

// place returns where a program runs.
func (c *Cluster) place(name string) Place {
	if c.config.On != nil {
		return c.config.On(name)
	}
	return Place{Address: "127.0.0.1"}
}

// at returns host:port of a program's port.
func (c *Cluster) at(name string, port int) string {
	return net.JoinHostPort(c.place(name).Address, strconv.Itoa(port))
}

// metadataName is the program that serves the metadata.
func (c *Cluster) metadataName() string {
	if c.config.Metadata == MetadataServer {
		return metadataName
	}
	return masterName
}

// run starts a program in its place.
func (c *Cluster) run(name string, command supervise.Command) (*supervise.Process, error) {
	command.Loopback = c.loopback
	if c.config.On != nil {
		command.Loopback = false
		if to := c.place(name).Command; to != nil {
			command = to(command)
		}
	}
	return supervise.Start(command)
}
