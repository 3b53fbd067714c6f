package up

import (
	"context"
	"net/url"
	"time"

	"ollamoon/internal/cluster"
	"ollamoon/internal/supervise"
)

// startStore starts Mooncake, if the store is one that is started here, and
// returns the store's URL.
func (s *session) startStore(ctx context.Context) (string, error) {
	if s.options.Store != Mooncake {
		return s.options.Store, nil
	}
	s.say("starting Mooncake")
	began := time.Now()
	c, err := cluster.Start(ctx, cluster.Config{
		Programs: s.options.Programs, SegmentBytes: s.options.SegmentBytes, Log: s.logs.of,
		Metadata: cluster.MetadataP2P, // owners of all versions stay in it when the master is started again
	})
	if err != nil {
		return "", err
	}
	s.say("  its master serves at %s after %.1f s", c.Master(), time.Since(began).Seconds())
	s.cluster = c
	s.parts = append(s.parts,
		&part{name: "mooncake_master", kind: KindStore, process: c.MasterProcess(), start: startMaster(c)},
		&part{name: "mooncake_client", kind: KindStore, process: c.OwnerProcess(), start: startOwner(c)})
	return "mooncake://" + c.Master() + "?" + url.Values{"metadata": {c.Metadata()}}.Encode(), nil
}

func startMaster(c *cluster.Cluster) func(context.Context) (*supervise.Process, error) {
	return func(ctx context.Context) (*supervise.Process, error) {
		// One may run that was waiting in vain for a mooncake_client that had died too.
		if p := c.MasterProcess(); p != nil && p.Err() == nil {
			return p, nil
		}
		c.StopMaster()
		if err := c.StartMaster(ctx); err != nil {
			return nil, err
		}
		return c.MasterProcess(), nil
	}
}

func startOwner(c *cluster.Cluster) func(context.Context) (*supervise.Process, error) {
	return func(ctx context.Context) (*supervise.Process, error) {
		c.KillOwner()
		if err := c.StartOwner(ctx); err != nil {
			return nil, err
		}
		return c.OwnerProcess(), nil
	}
}
