package mooncake

import "sync/atomic"

// Stats are counts since Dial.
type Stats struct {
	TCP          PlaneStats
	SharedMemory PlaneStats

	Copies      int64 // buffers not of Alloc that were copied through the arena
	CopiedBytes int64 // of them

	Renewed   int64 // descriptors that were asked for again because they were too old
	Rerouted  int64 // reads of another replica than the first
	Revoked   int64 // keys whose put was revoked
	Fallbacks int64 // objects and groups of them that shared memory gave up and TCP took over

	MasterConnections int64 // made
	OwnerConnections  int64 // made
}

// PlaneStats are what went over one data plane.
type PlaneStats struct {
	ObjectsRead, BytesRead       int64
	ObjectsWritten, BytesWritten int64 // a replica more is an object more
}

type counters struct {
	tcp, shared                           planeCounters
	copies, copiedBytes                   atomic.Int64
	renewed, rerouted, revoked, fallbacks atomic.Int64
}

func (c *counters) copied(bytes int) {
	c.copies.Add(1)
	c.copiedBytes.Add(int64(bytes))
}

type planeCounters struct {
	objectsRead, bytesRead, objectsWritten, bytesWritten atomic.Int64
}

func (p *planeCounters) read(bytes int) {
	p.objectsRead.Add(1)
	p.bytesRead.Add(int64(bytes))
}

func (p *planeCounters) wrote(bytes int) {
	p.objectsWritten.Add(1)
	p.bytesWritten.Add(int64(bytes))
}

func (p *planeCounters) load() PlaneStats {
	return PlaneStats{
		ObjectsRead: p.objectsRead.Load(), BytesRead: p.bytesRead.Load(),
		ObjectsWritten: p.objectsWritten.Load(), BytesWritten: p.bytesWritten.Load(),
	}
}

// Plane returns the plane that objects go over at the moment: "shared memory" or
// "tcp".
func (c *Client) Plane() string {
	if c.shared.use() != nil {
		return "shared memory"
	}
	return "tcp"
}

// Stats returns what the Client has done so far.
func (c *Client) Stats() Stats {
	return Stats{
		TCP:               c.counters.tcp.load(),
		SharedMemory:      c.counters.shared.load(),
		Copies:            c.counters.copies.Load(),
		CopiedBytes:       c.counters.copiedBytes.Load(),
		Renewed:           c.counters.renewed.Load(),
		Rerouted:          c.counters.rerouted.Load(),
		Revoked:           c.counters.revoked.Load(),
		Fallbacks:         c.counters.fallbacks.Load(),
		MasterConnections: int64(c.master.conn.Dials()), //nolint:gosec // small
		OwnerConnections:  c.pool.Stats().Opened,
	}
}
