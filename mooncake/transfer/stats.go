package transfer

import "sync/atomic"

// Stats are counts since the Pool was made, and its state.
type Stats struct {
	Opened       int64 // connections opened
	Reused       int64 // requests that ran on a connection which was open
	Retried      int64 // of these, how many had to run again on a new one
	Resolves     int64 // questions to the Resolver
	BytesRead    int64 // by reads that succeeded
	BytesWritten int64 // by writes that succeeded
	Idle         int   // connections open and idle now
}

type counters struct {
	opened, reused, retried, bytesRead, bytesWritten atomic.Int64
}

func (c *counters) load() Stats {
	return Stats{
		Opened:       c.opened.Load(),
		Reused:       c.reused.Load(),
		Retried:      c.retried.Load(),
		BytesRead:    c.bytesRead.Load(),
		BytesWritten: c.bytesWritten.Load(),
	}
}
