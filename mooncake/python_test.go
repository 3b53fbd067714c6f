package mooncake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/cluster"
	"ollamoon/internal/supervise"
)

// python puts and gets objects with the Python client of the store's wheel. What
// it got is in the items when it returns.
func python(t *testing.T, c *cluster.Cluster, put, get []Item, env ...string) {
	t.Helper()
	dir := t.TempDir()
	plan := map[string]map[string]string{"put": {}, "get": {}}
	for i, item := range put {
		path := filepath.Join(dir, fmt.Sprint("put", i))
		plan["put"][item.Key] = path
		if err := os.WriteFile(path, item.Bytes, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, item := range get {
		plan["get"][item.Key] = filepath.Join(dir, fmt.Sprint("get", i))
	}
	data, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	planPath := filepath.Join(dir, "plan.json")
	if err := os.WriteFile(planPath, data, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := supervise.Start(supervise.Command{
		Path:     c.Python(),
		Args:     []string{"testdata/exchange.py", c.Metadata(), c.Master(), planPath},
		Env:      append(env, "MC_TCP_BIND_ADDRESS=127.0.0.1", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"),
		Loopback: c.Loopback(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	select {
	case <-p.Done():
	case <-time.After(2 * time.Minute):
		t.Fatalf("the Python client does not end:\n%s", p.Tail())
	}
	if want := fmt.Sprintf("exchanged %d %d", len(put), len(get)); !strings.Contains(p.Tail(), want) {
		t.Fatalf("the Python client failed: %v\n%s", p.Err(), p.Tail())
	}
	for i := range get {
		if get[i].Bytes, err = os.ReadFile(plan["get"][get[i].Key]); err != nil {
			t.Fatal(err)
		}
	}
}

// What is put here is read by Mooncake's own client, byte for byte, and the other
// way round.
func TestExchangeWithPython(t *testing.T) {
	eachSetting(t, func(t *testing.T, s setting) {
		store := s.store(t)
		c := dial(t, store)
		ours, theirs := objectsOf(t, sizes...), objectsOf(t, sizes...)
		tidy(t, c, ours)
		tidy(t, c, theirs)
		none(t, "put", c.BatchPut(within(t), ours))
		got := blanks(ours)
		python(t, store, theirs, got)
		for i := range ours {
			if !bytes.Equal(got[i].Bytes, ours[i].Bytes) {
				t.Errorf("object of %d bytes: the Python client reads other bytes", len(ours[i].Bytes))
			}
		}
		holds(t, c, theirs)
	})
}

// A client that checks objects takes those without a checksum, and gives its own
// one that is told here.
func TestExchangeWithPythonThatChecks(t *testing.T) {
	store := latest.store(t)
	c := dial(t, store)
	ours, theirs := objectsOf(t, 100_000), objectsOf(t, 200_000)
	tidy(t, c, ours)
	tidy(t, c, theirs)
	none(t, "put", c.BatchPut(within(t), ours))
	got := blanks(ours)
	python(t, store, theirs, got, "MOONCAKE_STORE_CHECKSUM=1")
	if !bytes.Equal(got[0].Bytes, ours[0].Bytes) {
		t.Error("the Python client reads other bytes")
	}
	holds(t, c, theirs)
	known, err := c.BatchQuery(within(t), []string{theirs[0].Key, ours[0].Key})
	if err != nil {
		t.Fatal(err)
	}
	if sum := crc64ECMA(theirs[0].Bytes); known[0].Checksum == nil || *known[0].Checksum != sum {
		t.Errorf("checksum %v, want %#x", known[0].Checksum, sum)
	}
	if known[1].Checksum != nil {
		t.Errorf("an object without a checksum has %#x", *known[1].Checksum)
	}
}

// crc64ECMA is CRC-64/ECMA-182: not reflected, from zero.
func crc64ECMA(data []byte) uint64 {
	var sum uint64
	for _, b := range data {
		sum ^= uint64(b) << 56
		for range 8 {
			top := sum >> 63
			sum <<= 1
			if top == 1 {
				sum ^= 0x42f0e1eba9ea3693
			}
		}
	}
	return sum
}
