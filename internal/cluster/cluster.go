package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ollamoon/internal/supervise"
)

// How owners and clients find each other's data ports.
const (
	// MetadataHTTP is the master's embedded metadata server. It is emptied when the
	// master ends; owners of 0.3.13 fill it again, those of 0.3.11 do not, so that
	// with these StartMaster waits in vain.
	MetadataHTTP = "http"
	// MetadataServer is the wheel's metadata server in Python, a process of its own.
	MetadataServer = "server"
	// MetadataP2P: each owner answers for itself (P2PHANDSHAKE).
	MetadataP2P = "p2p"
)

const (
	// DefaultSegmentBytes is the memory of an owner when Config has none.
	DefaultSegmentBytes = 64 << 20
	// attempts bounds how often a program that ended at once is started.
	attempts = 3
	// stopGrace is what a program gets to end by itself.
	stopGrace = 5 * time.Second
	// ownerTimeout bounds one attempt of an owner. Its memory's name is random: the
	// name of one that the master has not yet found dead would never appear.
	ownerTimeout = 30 * time.Second
	// probeInterval is the time between two looks at whether a program is ready.
	probeInterval = 50 * time.Millisecond
)

var (
	// ErrClosed: the cluster has been closed.
	ErrClosed = errors.New("cluster: closed")
	// ErrRunning: what is to start has not been stopped.
	ErrRunning = errors.New("cluster: running already")
)

// Config says what to run. Zero values are Mooncake's own defaults unless a
// field says otherwise.
type Config struct {
	Programs     string        // a folder from Programs; those of Version if empty
	Metadata     string        // MetadataHTTP (also if empty), MetadataServer or MetadataP2P
	Owners       int           // mooncake_client processes, 1 if zero
	SegmentBytes int64         // memory of each owner, DefaultSegmentBytes if zero
	LeaseTTL     time.Duration // how long an object that was asked for stays (10 s)
	ClientTTL    time.Duration // how long a silent owner counts as alive, whole seconds (10 s)
	// EvictionHighWatermark is the share of memory in use above which objects are
	// evicted (0.9), EvictionRatio the share of objects that goes then (0.05).
	EvictionHighWatermark, EvictionRatio float64
	MasterFlags, ClientFlags             []string // added to the programs' arguments
	ClientEnv                            []string // added to the owners' environment
	LogDir                               string   // where master.log and owner-N.log go, if not empty
	Exposed                              bool     // run also where ports cannot be kept on loopback
	// Log, if not nil, returns where the output of a program (master, owner-N,
	// metadata) goes, in the place of LogDir.
	Log func(name string) (io.Writer, error)
	// On, if not nil, returns where a program (master, owner-N, metadata) runs.
	// Ports are then where the programs open them, some on all interfaces of it.
	On func(name string) Place
}

// A Cluster is a running store. Its methods are safe for concurrent use; those
// that start and stop programs wait for each other.
type Cluster struct {
	config   Config
	loopback bool
	ports    ports
	metadata *supervise.Process // with MetadataServer only

	masterLog io.Writer
	logs      []*os.File // in LogDir

	lifecycle sync.Mutex // held while programs start and stop
	mu        struct {
		sync.Mutex
		closed bool
		master *supervise.Process // nil when stopped
		owners []*owner
	}
}

type ports struct{ rpc, metadata, metrics int }

// Start starts a master and its owners and returns when a put works.
func Start(ctx context.Context, config Config) (*Cluster, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	c, err := start(ctx, config, true)
	if errors.Is(err, supervise.ErrLoopback) {
		if !config.Exposed {
			return nil, fmt.Errorf("%w; OLLAMOON_EXPOSE=1 in the environment runs Mooncake with open ports", err)
		}
		return start(ctx, config, false)
	}
	return c, err
}

// complete fills in defaults and checks the rest.
func (config *Config) complete() error {
	if config.Programs == "" {
		dir, err := Programs(Version)
		if err != nil {
			return err
		}
		config.Programs = dir
	}
	switch config.Metadata {
	case "":
		config.Metadata = MetadataHTTP
	case MetadataHTTP, MetadataServer, MetadataP2P:
	default:
		return fmt.Errorf("cluster: no kind of metadata is called %q", config.Metadata)
	}
	if config.Owners == 0 {
		config.Owners = 1
	}
	if config.SegmentBytes == 0 {
		config.SegmentBytes = DefaultSegmentBytes
	}
	config.Exposed = config.Exposed || os.Getenv("OLLAMOON_EXPOSE") == "1"
	return nil
}

// start makes the attempts: each on ports of its own.
func start(ctx context.Context, config Config, loopback bool) (*Cluster, error) {
	for attempt := 1; ; attempt++ {
		c := &Cluster{config: config, loopback: loopback}
		err := c.startAll(ctx)
		if err == nil {
			return c, nil
		}
		c.Close()
		if attempt == attempts || ctx.Err() != nil || !worthAgain(err) {
			return nil, fmt.Errorf("starting Mooncake: %w", err)
		}
	}
}

// worthAgain: the next attempt, on other ports, may do better.
func worthAgain(err error) bool {
	return errors.Is(err, supervise.ErrExited) || errors.Is(err, errNotMounted)
}

func (c *Cluster) startAll(ctx context.Context) error {
	free, err := supervise.FreePorts(ctx, 3+c.config.Owners)
	if err != nil {
		return err
	}
	c.ports = ports{rpc: free[0], metadata: free[1], metrics: free[2]}
	if err := c.runMetadata(ctx); err != nil {
		return err
	}
	if c.masterLog, err = c.openLog(masterName); err != nil {
		return err
	}
	c.mu.master, err = c.runMaster(ctx)
	if err != nil {
		return err
	}
	for i, port := range free[3:] {
		o := &owner{name: fmt.Sprintf("owner-%d", i), port: port}
		if o.log, err = c.openLog(o.name); err != nil {
			return err
		}
		c.mu.owners = append(c.mu.owners, o)
		if err := c.runOwner(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// openLog returns nil when no logs are kept.
func (c *Cluster) openLog(name string) (io.Writer, error) {
	if c.config.Log != nil {
		return c.config.Log(name)
	}
	if c.config.LogDir == "" {
		return nil, nil //nolint:nilnil // no file is what was asked for
	}
	f, err := os.OpenFile(filepath.Join(c.config.LogDir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // names from here, in the folder asked for
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	c.logs = append(c.logs, f)
	return f, nil
}

// Close stops the owners, then the master, then the metadata server. Only the first call does anything.
func (c *Cluster) Close() {
	c.lifecycle.Lock()
	defer c.lifecycle.Unlock()
	c.mu.Lock()
	closed, master, owners := c.mu.closed, c.mu.master, c.mu.owners
	c.mu.closed, c.mu.master = true, nil
	c.mu.Unlock()
	if closed {
		return
	}
	for _, o := range owners {
		if p := c.detach(o); p != nil {
			p.Stop(stopGrace)
		}
	}
	if master != nil {
		master.Stop(stopGrace)
	}
	if c.metadata != nil {
		c.metadata.Stop(stopGrace)
	}
	for _, f := range c.logs {
		_ = f.Close() // what was logged is for people
	}
}

// detach takes an owner's process from it, nil when it has none.
func (c *Cluster) detach(o *owner) *supervise.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := o.process
	o.process = nil
	return p
}

// Master returns host:port of the master's RPC port.
func (c *Cluster) Master() string { return c.at(masterName, c.ports.rpc) }

// Metadata returns the metadata server's address, or P2PHANDSHAKE.
func (c *Cluster) Metadata() string {
	if c.config.Metadata == MetadataP2P {
		return "P2PHANDSHAKE"
	}
	return fmt.Sprintf("http://%s/metadata", c.at(c.metadataName(), c.ports.metadata))
}

// Owner returns host:port of the first owner's RPC port. It stays when the owner
// is started again.
func (c *Cluster) Owner() string { return c.Owners()[0] }

// Owners returns host:port of each owner's RPC port.
func (c *Cluster) Owners() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	addresses := make([]string, len(c.mu.owners))
	for i, o := range c.mu.owners {
		addresses[i] = c.at(o.name, o.port)
	}
	return addresses
}

// Python returns the interpreter that has the wheel's Python client.
func (c *Cluster) Python() string { return python(c.config.Programs) }

// Loopback reports whether every port of the cluster is on loopback.
func (c *Cluster) Loopback() bool { return c.loopback && c.config.On == nil }

// Output returns the end of what the running programs wrote, for a message.
func (c *Cluster) Output() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var text string
	if c.mu.master != nil {
		text += "mooncake_master:\n" + c.mu.master.Tail()
	}
	for _, o := range c.mu.owners {
		if o.process != nil {
			text += "mooncake_client:\n" + o.process.Tail()
		}
	}
	return text
}

// environment is what both programs need besides the parent's environment. A
// proxy must not be asked for any of it.
func environment(extra ...string) []string {
	return append([]string{"NO_PROXY=*", "no_proxy=*"}, extra...)
}
