package cluster

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"ollamoon/internal/supervise"
)

// An owner is a mooncake_client: the process whose memory the objects are in.
type owner struct {
	name    string // owner-N
	port    int
	log     io.Writer
	process *supervise.Process // nil when stopped; changed under lifecycle and mu
	segment string             // the name that it chose for its memory at its start
}

// runOwner starts an owner's process and returns when its memory can be used.
func (c *Cluster) runOwner(ctx context.Context, o *owner) error {
	before, err := c.Segments(ctx)
	if err != nil {
		return err
	}
	p, err := c.run(o.name, supervise.Command{
		Path: filepath.Join(c.config.Programs, "mooncake_client"),
		Args: c.ownerArgs(o),
		Env:  environment(append([]string{"MC_TCP_BIND_ADDRESS=" + c.place(o.name).Address}, c.config.ClientEnv...)...),
		Log:  o.log,
	})
	if err != nil {
		return err
	}
	attempt, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	err = p.Ready(attempt, probeInterval, func(ctx context.Context) error {
		segments, err := c.Segments(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(segments, func(s string) bool { return !slices.Contains(before, s) })
		if i < 0 {
			return errNotMounted
		}
		o.segment = segments[i]
		return c.mounted(ctx, p, o)
	})
	if err != nil {
		p.Kill()
		return fmt.Errorf("waiting for mooncake_client: %w", err)
	}
	c.mu.Lock()
	o.process = p
	c.mu.Unlock()
	return nil
}

func (c *Cluster) ownerArgs(o *owner) []string {
	args := []string{
		"--logtostderr",
		"--host=" + c.place(o.name).Address,
		"--port=" + strconv.Itoa(o.port),
		"--master_server_address=" + c.Master(),
		"--metadata_server=" + c.Metadata(),
		"--protocol=tcp",
		fmt.Sprintf("--global_segment_size=%d", c.config.SegmentBytes),
	}
	return append(args, c.config.ClientFlags...)
}

// OwnerProcess returns the first owner, for whoever started it to wait for its
// end; nil when it is stopped. One that has ended by itself stays until it is
// killed.
func (c *Cluster) OwnerProcess() *supervise.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.owners) == 0 {
		return nil
	}
	return c.mu.owners[0].process
}

// OwnerPID returns the first owner's process id, 0 when it is stopped.
func (c *Cluster) OwnerPID() int {
	if p := c.OwnerProcess(); p != nil {
		return p.PID()
	}
	return 0
}

// KillOwner ends the first owner with SIGKILL. Its objects are gone, and the
// master does not know before Config.ClientTTL. (SIGTERM does the same: on it too
// mooncake_client ends without unmounting its memory.)
func (c *Cluster) KillOwner() {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	c.mu.Lock()
	o := c.mu.owners[0]
	c.mu.Unlock()
	if p := c.detach(o); p != nil {
		p.Kill()
	}
}

// StartOwner starts the first owner again, on the same RPC port with new, empty
// memory under a new name, and returns when that can be used.
func (c *Cluster) StartOwner(ctx context.Context) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	c.mu.Lock()
	closed, o := c.mu.closed, c.mu.owners[0]
	c.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if o.process != nil {
		return fmt.Errorf("starting the owner: %w", ErrRunning)
	}
	for attempt := 1; ; attempt++ {
		err := c.runOwner(ctx, o)
		if err == nil || attempt == attempts || ctx.Err() != nil || !worthAgain(err) {
			return err
		}
	}
}
