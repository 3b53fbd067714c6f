package mooncake

import "time"

// An Object is what the master knows of a key.
type Object struct {
	// Err is nil when the master answered for the key, else wraps ErrNotFound or
	// another sentinel.
	Err      error
	Replicas []Replica
	// Lease is how long the object is safe from eviction and from a remove without
	// force, from when the master answered.
	Lease time.Duration
	// Checksum is the CRC-64/ECMA-182 of the object, where its writer gave one.
	Checksum *uint64
}

// A Replica is one copy of an object.
type Replica struct {
	ID       uint64
	Kind     ReplicaKind
	Complete bool   // all of it has been written
	Size     uint64 // bytes

	// Of memory and NoF replicas, and partly of others.
	Address  uint64 // in the memory of the owner
	Protocol string // of the owner's transport, such as "tcp"
	Endpoint string // the owner's name in the metadata

	Path string // of replicas in files
}

// A ReplicaKind is what a replica is kept on.
type ReplicaKind uint8

// The kinds. Only replicas in memory are read and written by the client itself.
const (
	MemoryReplica    ReplicaKind = iota
	NofReplica                   // NVMe over fabrics
	DiskReplica                  // a file that all clients reach
	LocalDiskReplica             // a file of one client
	DFSReplica                   // a distributed file system
)

func (k ReplicaKind) String() string {
	names := [...]string{"memory", "NVMe-oF", "disk", "local disk", "distributed file system"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// complete is ReplicaStatus::COMPLETE.
const complete = 3
