package cluster

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStart(t *testing.T) {
	for _, v := range []string{Version, VersionOld} {
		for _, md := range []string{MetadataServer, MetadataP2P} {
			t.Run(v+md, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				dir, err := Programs(v)
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				c, err := Start(ctx, Config{Programs: dir, Metadata: md})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				t.Log(time.Since(begin), c.Loopback())
				begin = time.Now()
				c.KillOwner()
				if err := c.StartOwner(ctx); err != nil {
					t.Fatal(err)
				}
				t.Log("owner", time.Since(begin))
				begin = time.Now()
				c.KillMaster()
				if err := c.StartMaster(ctx); err != nil {
					t.Fatal(err)
				}
				t.Log("master", time.Since(begin))
				begin = time.Now()
				c.Close()
				t.Log("close", time.Since(begin))
			})
		}
	}
}
