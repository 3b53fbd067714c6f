package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"ollamoon/internal/supervise"
)

// runMaster starts a master and returns when it serves.
func (c *Cluster) runMaster(ctx context.Context) (*supervise.Process, error) {
	p, err := c.run(masterName, supervise.Command{
		Path: filepath.Join(c.config.Programs, "mooncake_master"),
		Args: c.masterArgs(),
		Env:  environment(),
		Log:  c.masterLog,
	})
	if err != nil {
		return nil, err
	}
	if err := p.Ready(ctx, probeInterval, func(ctx context.Context) error {
		return c.masterServes(ctx, p)
	}); err != nil {
		p.Kill()
		return nil, fmt.Errorf("waiting for mooncake_master: %w", err)
	}
	return p, nil
}

func (c *Cluster) masterArgs() []string {
	address := c.place(masterName).Address
	args := []string{
		"--logtostderr",
		"--rpc_address=" + address,
		"--rpc_port=" + strconv.Itoa(c.ports.rpc),
		"--metrics_host=" + address, "--undefok=metrics_host", // 0.3.11 and 0.3.12 have no such flag
		"--metrics_port=" + strconv.Itoa(c.ports.metrics),
	}
	if c.config.Metadata == MetadataHTTP {
		args = append(args,
			"--enable_http_metadata_server=true",
			"--http_metadata_server_host="+address,
			"--http_metadata_server_port="+strconv.Itoa(c.ports.metadata))
	}
	if ttl := c.config.LeaseTTL; ttl > 0 {
		args = append(args, fmt.Sprintf("--default_kv_lease_ttl=%d", ttl.Milliseconds()))
	}
	if ttl := c.config.ClientTTL; ttl > 0 {
		args = append(args, fmt.Sprintf("--client_ttl=%d", (ttl+time.Second-1)/time.Second))
	}
	if ratio := c.config.EvictionHighWatermark; ratio > 0 {
		args = append(args, fmt.Sprintf("--eviction_high_watermark_ratio=%g", ratio))
	}
	if ratio := c.config.EvictionRatio; ratio > 0 {
		args = append(args, fmt.Sprintf("--eviction_ratio=%g", ratio))
	}
	return append(args, c.config.MasterFlags...)
}

// MasterProcess returns the master, for its owner to wait for its end; nil when it
// is stopped. One that has ended by itself stays until it is stopped.
func (c *Cluster) MasterProcess() *supervise.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.master
}

// MasterPID returns the master's process id, 0 when it is stopped.
func (c *Cluster) MasterPID() int {
	if p := c.MasterProcess(); p != nil {
		return p.PID()
	}
	return 0
}

// StopMaster ends the master with SIGTERM. All that it knew is lost.
func (c *Cluster) StopMaster() {
	c.endMaster(func(p *supervise.Process) { p.Stop(stopGrace) })
}

// KillMaster ends the master with SIGKILL.
func (c *Cluster) KillMaster() { c.endMaster((*supervise.Process).Kill) }

func (c *Cluster) endMaster(end func(*supervise.Process)) {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	c.mu.Lock()
	master := c.mu.master
	c.mu.master = nil
	c.mu.Unlock()
	if master != nil {
		end(master)
	}
}

// StartMaster starts an empty master on the ports of the one before, and returns
// when the running owners have mounted their segments again, which takes them a
// second or two.
func (c *Cluster) StartMaster(ctx context.Context) error {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	c.mu.Lock()
	closed, running := c.mu.closed, c.mu.master != nil
	c.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if running {
		return fmt.Errorf("starting the master: %w", ErrRunning)
	}
	master, err := c.retryMaster(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.mu.master = master
	owners := c.mu.owners
	c.mu.Unlock()
	for _, o := range owners {
		if o.process == nil {
			continue
		}
		if err := o.process.Ready(ctx, probeInterval, func(ctx context.Context) error {
			return c.mounted(ctx, o.process, o)
		}); err != nil {
			return fmt.Errorf("waiting for mooncake_client to mount again: %w", err)
		}
	}
	return nil
}

// retryMaster starts a master on given ports, which a connection that is ending
// may hold for a moment.
func (c *Cluster) retryMaster(ctx context.Context) (*supervise.Process, error) {
	for attempt := 1; ; attempt++ {
		master, err := c.runMaster(ctx)
		if err == nil || attempt == attempts || !worthAgain(err) {
			return master, err
		}
		timer := time.NewTimer(time.Duration(attempt) * 250 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, err
		}
	}
}
