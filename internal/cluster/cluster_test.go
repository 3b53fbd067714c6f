//go:build linux

package cluster

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/supervise"
)

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		playParent()
		return
	}
	goleak.VerifyTestMain(m)
}

// startTest starts a cluster of a version that the test's end stops.
func startTest(t *testing.T, version string, config Config) *Cluster {
	t.Helper()
	programs, err := Programs(version)
	if err != nil {
		t.Fatal(err)
	}
	config.Programs = programs
	c, err := Start(within(t, time.Minute), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// put stores an object through the wheel's Python client and reads it back.
const put = `
import sys
from mooncake.store import MooncakeDistributedStore
metadata, master, key = sys.argv[1:]
s = MooncakeDistributedStore()
assert s.setup("127.0.0.1", metadata, 0, 16 << 20, "tcp", "", master) == 0
value = key.encode() * 1000
code = s.put(key, value)
assert code == 0, code
assert s.get(key) == value
s.close()
print("stored")
`

// checkPut fails the test unless a put works at once.
func checkPut(t *testing.T, c *Cluster, key string) {
	t.Helper()
	p, err := supervise.Start(supervise.Command{
		Path:     c.Python(),
		Args:     []string{"-c", put, c.Metadata(), c.Master(), key},
		Env:      environment("MC_TCP_BIND_ADDRESS=127.0.0.1"),
		Loopback: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	select {
	case <-p.Done():
	case <-time.After(time.Minute):
		t.Error("the Python client is not done after a minute")
	}
	if !strings.Contains(p.Tail(), "stored") {
		t.Fatalf("a put failed: %s\n%s", p.Tail(), c.Output())
	}
}

// Whatever starts is ready for puts, of both versions and with each kind of
// metadata, and everything can end and start again.
func TestEachKind(t *testing.T) {
	for _, version := range []string{Version, VersionOld} {
		for _, metadata := range []string{MetadataHTTP, MetadataServer, MetadataP2P} {
			t.Run(version+" "+metadata, func(t *testing.T) {
				c := startTest(t, version, Config{Metadata: metadata})
				checkPut(t, c, "first")
				checkListeners(t, c)

				master, owner, ownerPID := c.Master(), c.Owner(), c.OwnerPID()
				c.KillOwner()
				if c.OwnerPID() != 0 {
					t.Errorf("a killed owner has process %d", c.OwnerPID())
				}
				if err := c.StartOwner(within(t, time.Minute)); err != nil {
					t.Fatal(err)
				}
				if c.Owner() != owner || c.OwnerPID() == ownerPID {
					t.Errorf("owner %s, process %d, was %s, %d", c.Owner(), c.OwnerPID(), owner, ownerPID)
				}
				if version == VersionOld && metadata == MetadataHTTP {
					return // its owners do not fill the metadata server of a new master
				}
				c.KillMaster()
				if err := c.StartMaster(within(t, time.Minute)); err != nil {
					t.Fatal(err)
				}
				if c.Master() != master {
					t.Errorf("the master is at %s, was at %s", c.Master(), master)
				}
				checkPut(t, c, "second")
				checkListeners(t, c)
			})
		}
	}
}

func TestSeveralOwners(t *testing.T) {
	c := startTest(t, Version, Config{Owners: 3, Metadata: MetadataP2P})
	segments, err := c.Segments(within(t, 20*time.Second))
	if err != nil || len(segments) != 3 || len(c.Owners()) != 3 {
		t.Errorf("segments %v of owners %v, %v", segments, c.Owners(), err)
	}
}

func TestSettingsReachThePrograms(t *testing.T) {
	logs := t.TempDir()
	c := startTest(t, Version, Config{
		Metadata: MetadataP2P, SegmentBytes: 48 << 20, LogDir: logs,
		LeaseTTL: 1500 * time.Millisecond, ClientTTL: 3500 * time.Millisecond,
		EvictionHighWatermark: 0.75, EvictionRatio: 0.125,
		MasterFlags: []string{"--put_start_discard_timeout_sec=7"},
		ClientEnv:   []string{"MC_STORE_MEMCPY=0"},
	})
	for _, want := range []string{
		"default_kv_lease_ttl=1500,", "client_ttl=4,", "eviction_high_watermark_ratio=0.75,",
		"eviction_ratio=0.125,", "put_start_discard_timeout_sec=7,", "Mounting segment: 50331648 bytes",
	} {
		if !strings.Contains(c.Output(), want) {
			t.Errorf("the programs do not say %s", want)
		}
	}
	metrics, err := c.Metrics(within(t, 20*time.Second))
	if err != nil || !strings.Contains(string(metrics), "master_total_capacity_bytes 50331648") {
		t.Errorf("metrics %.200s, %v", metrics, err)
	}
	c.Close()
	for _, name := range []string{"master.log", "owner-0.log"} {
		text, err := os.ReadFile(filepath.Join(logs, name))
		if err != nil || len(text) == 0 {
			t.Errorf("%s has %d bytes, %v", name, len(text), err)
		}
	}
}

func TestStartFails(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"a flag that the master has not": {Config{MasterFlags: []string{"--no_such_flag"}}, "no_such_flag"},
		"a flag that the owner has not":  {Config{ClientFlags: []string{"--no_such_flag"}}, "no_such_flag"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Start(within(t, time.Minute), c.config)
			if !errors.Is(err, supervise.ErrExited) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := Start(context.Background(), Config{Metadata: "etcd"}); err == nil {
		t.Error("started with an unknown kind of metadata")
	}
	_, err := Start(within(t, 30*time.Millisecond), Config{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// A port that something else holds for a moment is waited for.
func TestStartMasterOnATakenPort(t *testing.T) {
	c := startTest(t, Version, Config{Metadata: MetadataP2P})
	c.StopMaster()
	l, err := net.Listen("tcp4", c.Master()) //nolint:noctx // closed below
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	done := make(chan error)
	go func() { done <- c.StartMaster(ctx) }()
	time.Sleep(300 * time.Millisecond)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	cancel()
	checkPut(t, c, "key")
}

func TestClosed(t *testing.T) {
	c := startTest(t, Version, Config{Metadata: MetadataP2P})
	if err := errors.Join(c.StartMaster(context.Background()), c.StartOwner(context.Background())); !errors.Is(err, ErrRunning) {
		t.Errorf("starting what runs: %v", err)
	}
	c.Close()
	c.Close()
	c.KillMaster()
	c.KillOwner()
	for _, err := range []error{c.StartMaster(context.Background()), c.StartOwner(context.Background())} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	if c.MasterPID() != 0 || c.OwnerPID() != 0 {
		t.Errorf("processes %d and %d of a closed cluster", c.MasterPID(), c.OwnerPID())
	}
}

func TestProgramsOfNoVersion(t *testing.T) {
	_, err := Programs("0.0.1")
	if !errors.Is(err, ErrNoPrograms) || !strings.Contains(err.Error(), "scripts/setup.sh") {
		t.Errorf("%v", err)
	}
	t.Setenv("OLLAMOON_MOONCAKE_DIR", t.TempDir())
	if _, err := Programs(Version); !errors.Is(err, ErrNoPrograms) {
		t.Errorf("%v", err)
	}
}
