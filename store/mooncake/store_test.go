package mooncake

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/cluster"
	"ollamoon/mooncake"
	"ollamoon/mooncake/transfer"
	"ollamoon/store"
	"ollamoon/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 2 * time.Minute

// start starts a real store for one test.
func start(t *testing.T, release string, config cluster.Config) *cluster.Cluster {
	t.Helper()
	programs, err := cluster.Programs(release)
	if err != nil {
		t.Fatal(err)
	}
	config.Programs = programs
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := cluster.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, c *cluster.Cluster, sharedMemory string) *Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := Open(ctx, mooncake.Config{Master: c.Master(), Metadata: c.Metadata(), SharedMemory: sharedMemory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// The contract holds on real stores: the newest and the oldest release, both kinds
// of metadata, both planes.
func TestStore(t *testing.T) {
	for _, release := range []string{cluster.Version, cluster.VersionOld} {
		for _, metadata := range []string{cluster.MetadataHTTP, cluster.MetadataP2P} {
			t.Run(release+","+metadata, func(t *testing.T) {
				c := start(t, release, cluster.Config{Metadata: metadata, SegmentBytes: 2 * storetest.RoomBytes})
				for plane, sharedMemory := range map[string]string{"tcp": "off", "shared memory": c.Owner()} {
					t.Run(plane, func(t *testing.T) {
						contract(t, c, sharedMemory)
						if got := open(t, c, sharedMemory).Client().Plane(); got != plane {
							t.Errorf("the plane is %s", got)
						}
					})
				}
			})
		}
	}
}

func contract(t *testing.T, c *cluster.Cluster, sharedMemory string) {
	storetest.Run(t, storetest.Config{
		Open:        func(t *testing.T) store.Store { return open(t, c, sharedMemory) },
		Another:     func(t *testing.T, _ store.Store) store.Store { return open(t, c, sharedMemory) },
		Corrupt:     func(t *testing.T, _ store.Store, key string, offset int) { flip(t, c, key, offset) },
		VagueExists: sharedMemory != "off",
		StaleReads:  true,
	})
}

// flip changes a byte of an object in its owner's memory, as anyone can who
// reaches the owner.
func flip(t *testing.T, c *cluster.Cluster, key string, offset int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found, err := open(t, c, "off").Client().BatchQuery(ctx, []string{key})
	if err != nil || found[0].Err != nil {
		t.Fatal(err, found)
	}
	resolver := transfer.P2PHandshake()
	if c.Metadata() != "P2PHANDSHAKE" {
		resolver = transfer.HTTPMetadata(c.Metadata())
	}
	pool := transfer.NewPool(resolver, transfer.Options{})
	defer pool.Close()
	for _, r := range found[0].Replicas {
		address := r.Address + uint64(offset) //nolint:gosec // not negative
		b := make([]byte, 1)
		if err := pool.Read(ctx, r.Endpoint, address, b); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0x40
		if err := pool.Write(ctx, r.Endpoint, address, b); err != nil {
			t.Fatal(err)
		}
	}
}

// Every error of the client means something to a caller of a store, and stays
// what it was.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ client, want error }{
		{mooncake.ErrNotFound, store.ErrNotFound},
		{mooncake.ErrNotReady, store.ErrNotFound},
		{mooncake.ErrNoReplica, store.ErrNotFound},
		{mooncake.ErrLeaseExpired, store.ErrNotFound},
		{mooncake.ErrChecksum, store.ErrNotFound},
		{mooncake.ErrExists, store.ErrExists},
		{mooncake.ErrNoSpace, store.ErrFull},
		{mooncake.ErrLength, store.ErrLength},
		{mooncake.ErrArgument, store.ErrBadKey},
		{mooncake.ErrUnavailable, store.ErrUnavailable},
		{mooncake.ErrWireVersion, store.ErrUnavailable},
		{mooncake.ErrTenant, store.ErrUnavailable},
		{mooncake.ErrClosed, store.ErrClosed},
		{&mooncake.CodeError{Code: -705}, store.ErrExists},
		{&mooncake.CodeError{Code: -200}, store.ErrFull},
		{&mooncake.CodeError{Code: -1}, store.ErrUnavailable},
	} {
		err := translate(t.Context(), fmt.Errorf("doing it: %w", c.client))
		if !errors.Is(err, c.want) || !errors.Is(err, c.client) {
			t.Errorf("%v becomes %v", c.client, err)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := translate(cancelled, context.Canceled); !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a context's error becomes %v", err)
	}
	if err := translate(cancelled, nil); err != nil {
		t.Errorf("nil becomes %v", err)
	}
}

// A store that is not there, or goes, is unavailable in bounded time.
func TestUnavailable(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := Open(ctx, mooncake.Config{Master: "127.0.0.1:1", Metadata: "P2PHANDSHAKE"})
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, mooncake.ErrUnavailable) {
		t.Errorf("no master: %v", err)
	}
	_, err = Open(ctx, mooncake.Config{Master: "127.0.0.1:1", Metadata: "etcd://127.0.0.1"})
	if !errors.Is(err, mooncake.ErrUnsupported) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("metadata that cannot work: %v", err)
	}

	c := start(t, cluster.Version, cluster.Config{Metadata: cluster.MetadataP2P})
	s := open(t, c, "off")
	items := []store.Item{{Key: "unavailable", Bytes: make([]byte, 1000)}}
	if err := s.BatchPut(ctx, items)[0]; err != nil {
		t.Fatal(err)
	}
	c.KillMaster()
	if _, err := s.BatchExist(ctx, []string{"unavailable"}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("asking without a master: %v", err)
	}
	if err := s.BatchGet(ctx, items)[0]; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("reading without a master: %v", err)
	}
	if err := s.BatchPut(ctx, items)[0]; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("putting without a master: %v", err)
	}
	if err := s.Discard(ctx, "unavailable"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("discarding without a master: %v", err)
	}
}

func TestFull(t *testing.T) {
	c := start(t, cluster.Version, cluster.Config{Metadata: cluster.MetadataP2P, SegmentBytes: 32 << 20})
	s := open(t, c, "off")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	large := []store.Item{{Key: "large", Bytes: make([]byte, 33<<20)}}
	if err := s.BatchPut(ctx, large)[0]; !errors.Is(err, store.ErrFull) {
		t.Errorf("an object larger than the store: %v", err)
	}
}
