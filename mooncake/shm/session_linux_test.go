package shm

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"ollamoon/internal/cluster"
	"ollamoon/mooncake/structpack"
)

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

func startCluster(t *testing.T, version string, config cluster.Config) *cluster.Cluster {
	t.Helper()
	programs, err := cluster.Programs(version)
	if err != nil {
		t.Fatal(err)
	}
	config.Programs = programs
	c, err := cluster.Start(within(t, time.Minute), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
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

func TestPutAndGet(t *testing.T) {
	for version := range configs {
		t.Run(version, func(t *testing.T) {
			c := startCluster(t, version, cluster.Config{})
			s := openSession(t, c, version, Options{ArenaBytes: 64 << 20})
			ctx := within(t, 30*time.Second)
			sizes := []int{1, 4096, 100_000, 1<<20 + 80}
			var puts, gets []Item
			for i, size := range sizes {
				key := fmt.Sprint("key ", i)
				from, to := alloc(t, s, size), alloc(t, s, size)
				_, _ = rand.Read(from.Bytes())
				puts = append(puts, Item{key, from.Bytes()})
				gets = append(gets, Item{key, to.Bytes()})
			}
			put, err := s.Put(ctx, puts)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Get(ctx, gets)
			if err != nil {
				t.Fatal(err)
			}
			for i := range sizes {
				if put[i] != (Result{}) || got[i] != (Result{Bytes: sizes[i]}) || !bytes.Equal(puts[i].Bytes, gets[i].Bytes) {
					t.Errorf("%d bytes: put %+v, got %+v", sizes[i], put[i], got[i])
				}
			}
		})
	}
}
