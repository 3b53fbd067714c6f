package mooncake

import "ollamoon/mooncake/structpack"

// A version is one dialect of the master's protocol. The dialects are one set of
// calls with differences that this table lists; what it does not list is the same
// in all.
type version struct {
	name string // the first release that speaks it

	// config is what a ReplicateConfig consists of, in order.
	config []configField
	// replicas are the kinds of replicas, by their index in the variant.
	replicas []replicaKind
	// tenants: the calls about objects take a tenant as their last argument.
	tenants bool
	// checksums: BatchPutEnd takes a checksum with each key, and the answer of
	// BatchGetReplicaList has one.
	checksums bool
}

// versions are those that the client speaks, newest first.
var versions = []*version{
	{
		name: "0.3.13",
		config: []configField{
			replicaNum, nofReplicaNum, dfsReplicaNum, softPinAction, softPinTTL, hardPin, preferredSegments, preferredSegment,
			preferredNofSegments, preferSameNode, dataType, hostID, groupIDs,
		},
		replicas:  []replicaKind{memoryReplica, nofReplica, diskReplica, localDiskReplica, dfsReplica},
		tenants:   true,
		checksums: true,
	},
	{
		name: "0.3.12",
		config: []configField{
			replicaNum, nofReplicaNum, softPin, hardPin, preferredSegments, preferredSegment,
			preferredNofSegments, preferSameNode, dataType, hostID, groupIDs,
		},
		replicas: []replicaKind{memoryReplica, nofReplica, diskReplica, localDiskReplica},
		tenants:  true,
	},
	{
		name: "0.3.11",
		config: []configField{
			replicaNum, nofReplicaNum, softPin, hardPin, preferredSegments, preferredSegment,
			preferredNofSegments, preferSameNode, dataType,
		},
		replicas: []replicaKind{memoryReplica, nofReplica, diskReplica, localDiskReplica},
	},
}

// A configField is a field of ReplicateConfig on the wire.
type configField struct {
	typ   structpack.Type
	write func(*structpack.Writer, *ReplicateConfig)
}

var (
	replicaNum    = configField{structpack.U64, func(w *structpack.Writer, c *ReplicateConfig) { w.U64(uint64(c.replicas())) }}
	nofReplicaNum = configField{structpack.U64, func(w *structpack.Writer, _ *ReplicateConfig) { w.U64(0) }}
	dfsReplicaNum = nofReplicaNum
	// softPin became an action, which preserves, enables or disables, and a time
	// to live, whose default is the master's.
	softPin       = configField{structpack.Bool, func(w *structpack.Writer, c *ReplicateConfig) { w.Bool(c.SoftPin) }}
	softPinAction = configField{structpack.U8, func(w *structpack.Writer, c *ReplicateConfig) { w.Bool(c.SoftPin) }}
	softPinTTL    = configField{structpack.Optional(structpack.U64), func(w *structpack.Writer, c *ReplicateConfig) {
		set := c.SoftPin && c.SoftPinTTL > 0
		w.Bool(set)
		if set {
			w.U64(uint64(c.SoftPinTTL.Milliseconds()))
		}
	}}
	hardPin           = configField{structpack.Bool, func(w *structpack.Writer, c *ReplicateConfig) { w.Bool(c.HardPin) }}
	preferredSegments = configField{structpack.Vector(structpack.String), func(w *structpack.Writer, c *ReplicateConfig) {
		structpack.WriteSlice(w, c.PreferredSegments, w.String)
	}}
	// preferredSegment is the older form of preferredSegments.
	preferredSegment     = configField{structpack.String, func(w *structpack.Writer, _ *ReplicateConfig) { w.String("") }}
	preferredNofSegments = configField{structpack.Vector(structpack.String), func(w *structpack.Writer, _ *ReplicateConfig) { w.Len(0) }}
	preferSameNode       = configField{structpack.Bool, func(w *structpack.Writer, c *ReplicateConfig) { w.Bool(c.SameNode) }}
	dataType             = configField{structpack.U8, func(w *structpack.Writer, c *ReplicateConfig) { w.U8(uint8(c.DataType)) }}
	// hostID is left empty: the master would remember it for each writer.
	hostID   = configField{structpack.String, func(w *structpack.Writer, _ *ReplicateConfig) { w.String("") }}
	groupIDs = configField{
		structpack.Optional(structpack.Vector(structpack.String)),
		func(w *structpack.Writer, _ *ReplicateConfig) { w.Bool(false) },
	}
)

// configType is the type of ReplicateConfig.
func (v *version) configType() structpack.Type {
	fields := make([]structpack.Type, 0, len(v.config))
	for _, f := range v.config {
		fields = append(fields, f.typ)
	}
	return structpack.Struct(fields...)
}

func (v *version) writeConfig(w *structpack.Writer, config *ReplicateConfig) {
	for _, f := range v.config {
		f.write(w, config)
	}
}

// A replicaKind is an alternative of a replica's descriptor on the wire.
type replicaKind struct {
	kind ReplicaKind
	typ  structpack.Type
	read func(*structpack.Reader, *Replica)
}

var (
	bufferDescriptor = structpack.Struct(structpack.Struct(structpack.U64, structpack.U64, structpack.String, structpack.String))

	memoryReplica    = replicaKind{MemoryReplica, bufferDescriptor, readBuffer}
	nofReplica       = replicaKind{NofReplica, bufferDescriptor, readBuffer}
	diskReplica      = replicaKind{DiskReplica, structpack.Struct(structpack.String, structpack.U64), readDisk}
	localDiskReplica = replicaKind{
		LocalDiskReplica, structpack.Struct(structpack.UUID, structpack.U64, structpack.String), readLocalDisk,
	}
	dfsReplica = replicaKind{
		DFSReplica,
		structpack.Struct(structpack.String, structpack.U64, structpack.U64, structpack.U64, structpack.I32),
		readDFS,
	}
)

func readBuffer(r *structpack.Reader, replica *Replica) {
	replica.Size, replica.Address = r.U64(), r.U64()
	replica.Protocol, replica.Endpoint = r.String(), r.String()
}

func readDisk(r *structpack.Reader, replica *Replica) {
	replica.Path, replica.Size = r.String(), r.U64()
}

func readLocalDisk(r *structpack.Reader, replica *Replica) {
	_ = r.UUID() // of the client that keeps it
	replica.Size, replica.Endpoint = r.U64(), r.String()
}

func readDFS(r *structpack.Reader, replica *Replica) {
	replica.Path = r.String()
	_ = r.U64() // offset
	replica.Size = r.U64()
	_, _ = r.U64(), r.I32() // reserved size and shard
}
