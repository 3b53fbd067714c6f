package shm

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/cluster"
	"ollamoon/mooncake/structpack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing stops the common clusters after the tests.
type closing struct{ m *testing.M }

func (c closing) Run() int {
	defer func() {
		for _, c := range common.running {
			c.Close()
		}
	}()
	return c.m.Run()
}

// common are clusters, by version, of tests that leave them as they were. Their
// keys begin with the test's name.
var common struct {
	sync.Mutex
	running map[string]*cluster.Cluster
}

func commonCluster(t *testing.T, version string) *cluster.Cluster {
	t.Helper()
	common.Lock()
	defer common.Unlock()
	if c := common.running[version]; c != nil {
		return c
	}
	c := newCluster(t, version, cluster.Config{})
	if common.running == nil {
		common.running = map[string]*cluster.Cluster{}
	}
	common.running[version] = c
	return c
}

// startCluster starts a cluster of the test's own.
func startCluster(t *testing.T, version string, config cluster.Config) *cluster.Cluster {
	t.Helper()
	c := newCluster(t, version, config)
	t.Cleanup(c.Close)
	return c
}

func newCluster(t *testing.T, version string, config cluster.Config) *cluster.Cluster {
	t.Helper()
	programs, err := cluster.Programs(version)
	if err != nil {
		t.Fatal(err)
	}
	config.Programs = programs
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func openSession(t *testing.T, c *cluster.Cluster, version string, o Options) *Session {
	t.Helper()
	o.Addr = c.Owner()
	configs[version](&o)
	s, err := Open(within(t, 30*time.Second), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func alloc(t *testing.T, s *Session, size int) *Buffer {
	t.Helper()
	b, err := s.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// configs are one replica and nothing else, in the form of each version.
var configs = map[string]func(*Options){
	cluster.Version: func(o *Options) {
		o.ConfigType = structpack.Struct(structpack.U64, structpack.U64, structpack.U64, structpack.U8, structpack.Optional(structpack.U64),
			structpack.Bool, structpack.Vector(structpack.String), structpack.String, structpack.Vector(structpack.String),
			structpack.Bool, structpack.U8, structpack.String, structpack.Optional(structpack.Vector(structpack.String)))
		o.WriteConfig = func(w *structpack.Writer) {
			w.U64(1)
			w.U64(0)
			w.U64(0)
			w.U8(0)
			w.Bool(false)
			w.Bool(false)
			w.Len(0)
			w.String("")
			w.Len(0)
			w.Bool(false)
			w.U8(0)
			w.String("")
			w.Bool(false)
		}
	},
	cluster.VersionOld: func(o *Options) {
		o.ConfigType = structpack.Struct(structpack.U64, structpack.U64, structpack.Bool, structpack.Bool,
			structpack.Vector(structpack.String), structpack.String, structpack.Vector(structpack.String), structpack.Bool, structpack.U8)
		o.WriteConfig = func(w *structpack.Writer) {
			w.U64(1)
			w.U64(0)
			w.Bool(false)
			w.Bool(false)
			w.Len(0)
			w.String("")
			w.Len(0)
			w.Bool(false)
			w.U8(0)
		}
	},
}
