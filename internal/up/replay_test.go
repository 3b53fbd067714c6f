//go:build linux

package up

import (
	"bytes"
	"os"
	"testing"

	"ollamoon/internal/simulate/replay"
	"ollamoon/internal/simulate/trace"
)

// The simulator against a real cluster with a real Mooncake Store and a real
// model: each request of a small trace hits as many pages in both. How near times
// to the first token are depends on what else the machine does, and is told only.
func TestReplay(t *testing.T) {
	requests := 8
	if os.Getenv("OLLAMOON_FULL") != "" {
		requests = 32
	}
	c := up(t, "--prefill", "0", "--decode", "2", "--segment", "512MiB")
	f, err := replay.Run(t.Context(), replay.Options{
		URL: c.URL, Trace: trace.Small(requests, 256), Name: "small", WorkerCache: 8 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := replay.Write(&table, f); err != nil {
		t.Error(err)
	}
	t.Log("\n" + table.String())
	for i, q := range f.Requests {
		if q.Cluster.Hits != q.Simulated.Hits {
			t.Errorf("request %d hits %d pages of %d, in the simulation %d", i+1, q.Cluster.Hits, q.Pages, q.Simulated.Hits)
		}
	}
	if f.Cluster.Hits < requests { // in the small trace more than one each
		t.Errorf("%d requests hit %d pages", requests, f.Cluster.Hits)
	}
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.end(0)
}
