package mooncake

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
)

// A Config says where a store is and how to use it. Master and Metadata have to
// be set; the zero value of every other field is usable.
type Config struct {
	// Master is the host:port of mooncake_master's RPC port.
	Master string
	// Metadata is where owners of segments publish their data ports: the URL of an
	// HTTP metadata server ("http://host:port/metadata"), or "P2PHANDSHAKE" when
	// each owner is asked itself. It is what the owners were started with.
	Metadata string
	// Tenant is the tenant whose objects the client sees; empty is "default". A
	// master that does not run with tenants (the default) ignores it, so it keeps
	// nobody from reading or replacing anything there.
	Tenant string
	// Replicate applies to all puts.
	Replicate ReplicateConfig
	// Protocol is "tcp", or empty for it.
	Protocol string

	// SharedMemory is "auto", or empty for it: objects go through the shared memory
	// of a mooncake_client process when this machine runs one, of the same user or
	// root, that finds an object of one byte that the client puts for that; "off":
	// never; or the port or host:port of that process, which Dial then insists on.
	SharedMemory string
	// ArenaBytes bounds the memory that Alloc shares with that process. 0 is
	// 256 MiB. It is taken when Alloc needs it.
	ArenaBytes int64

	// ConnectTimeout bounds making a connection. 0 is 3 s.
	ConnectTimeout time.Duration
	// CallTimeout bounds the wait for each answer of the master. 0 is 5 s.
	CallTimeout time.Duration
	// StallTimeout is how long a transfer may move no byte. 0 is 5 s.
	StallTimeout time.Duration
	// Connections is how many connections an owner gets at most. 0 is 4: an owner
	// serves all of them on one thread, which several keep busy.
	Connections int

	// Logger gets what no error reports: fallbacks and leftovers. nil discards.
	Logger *slog.Logger
}

// A ReplicateConfig says how the master places the objects of a put. The zero
// value is one replica anywhere.
type ReplicateConfig struct {
	// Replicas is the number of replicas in memory, each on another owner; 0 is 1.
	// The master places fewer when there are fewer owners with room.
	Replicas int
	// SoftPin asks to evict the object only when nothing without a pin is left.
	SoftPin bool
	// SoftPinTTL is how long a soft pin holds; 0 is the master's default. Masters
	// before 0.3.13 ignore it.
	SoftPinTTL time.Duration
	// HardPin keeps the object from eviction altogether.
	HardPin bool
	// PreferredSegments are the names of segments to try first.
	PreferredSegments []string
	// SameNode asks to place the objects of one batch on one owner.
	SameNode bool
	// DataType is told to the master, which counts by it.
	DataType DataType
}

// A DataType says what an object holds.
type DataType uint8

// Of Mooncake's ObjectDataType.
const (
	UnknownData DataType = 0
	KVCacheData DataType = 1
	GeneralData DataType = 9
)

func (c *ReplicateConfig) replicas() int { return max(c.Replicas, 1) }

// p2pHandshake is Mooncake's word for metadata that each owner serves itself.
const p2pHandshake = "P2PHANDSHAKE"

// withDefaults returns the Config with its zero fields filled in, or an error
// that wraps ErrUnsupported or ErrArgument.
func (c Config) withDefaults() (Config, error) {
	if _, _, err := net.SplitHostPort(c.Master); err != nil {
		return c, fmt.Errorf("%w: master %q: %w", ErrArgument, c.Master, err)
	}
	isHTTP := strings.HasPrefix(c.Metadata, "http://") || strings.HasPrefix(c.Metadata, "https://")
	if !isHTTP && c.Metadata != p2pHandshake {
		return c, fmt.Errorf("%w: metadata %q; what works is http://host:port/metadata or %s", ErrUnsupported, c.Metadata, p2pHandshake)
	}
	if c.Protocol != "" && c.Protocol != "tcp" {
		return c, fmt.Errorf("%w: protocol %q; what works is tcp", ErrUnsupported, c.Protocol)
	}
	if c.Replicate.Replicas < 0 {
		return c, fmt.Errorf("%w: %d replicas", ErrArgument, c.Replicate.Replicas)
	}
	if c.Tenant == "" {
		c.Tenant = defaultTenant
	}
	var err error
	if c.SharedMemory, err = sharedMemoryMode(c.SharedMemory); err != nil {
		return c, err
	}
	if c.ArenaBytes <= 0 {
		c.ArenaBytes = 256 << 20
	}
	if c.ConnectTimeout <= 0 {
		c.ConnectTimeout = 3 * time.Second
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = 5 * time.Second
	}
	if c.StallTimeout <= 0 {
		c.StallTimeout = 5 * time.Second
	}
	if c.Connections <= 0 {
		c.Connections = 4
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// sharedMemoryMode returns "auto", "off", or the host:port of a process.
func sharedMemoryMode(mode string) (string, error) {
	switch mode {
	case "":
		return sharedMemoryAuto, nil
	case sharedMemoryAuto, sharedMemoryOff:
		return mode, nil
	}
	if port, err := strconv.ParseUint(mode, 10, 16); err == nil && port > 0 {
		return net.JoinHostPort("127.0.0.1", mode), nil
	}
	if _, _, err := net.SplitHostPort(mode); err != nil {
		return "", fmt.Errorf("%w: shared memory %q; what works is auto, off, a port or host:port", ErrArgument, mode)
	}
	return mode, nil
}

const (
	defaultTenant    = "default"
	sharedMemoryAuto = "auto"
	sharedMemoryOff  = "off"
)
