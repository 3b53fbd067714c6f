package mooncake

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/cluster"
)

// A setting is a real store that tests share: they use keys of their own.
type setting struct {
	release  string // of the wheel
	metadata string
	wire     string // the version that its master speaks
}

var settings = []setting{
	{cluster.Version, cluster.MetadataHTTP, "0.3.13"},
	{cluster.Version, cluster.MetadataP2P, "0.3.13"},
	{cluster.VersionOld, cluster.MetadataServer, "0.3.11"},
	{cluster.VersionOld, cluster.MetadataP2P, "0.3.11"},
}

var (
	latest = settings[0]
	oldest = settings[2]
)

func (s setting) name() string { return s.release + "," + s.metadata }

// segmentBytes is the memory of a shared store.
const segmentBytes = 128 << 20

var shared struct {
	sync.Mutex
	clusters map[setting]*cluster.Cluster
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, c := range shared.clusters {
		c.Close()
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// store returns a setting's shared store, which it starts.
func (s setting) store(t testing.TB) *cluster.Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if c := shared.clusters[s]; c != nil {
		return c
	}
	c := s.start(t, cluster.Config{SegmentBytes: segmentBytes})
	if shared.clusters == nil {
		shared.clusters = map[setting]*cluster.Cluster{}
	}
	shared.clusters[s] = c
	return c
}

// start starts a store that is not shared. Its caller closes it.
func (s setting) start(t testing.TB, config cluster.Config) *cluster.Cluster {
	t.Helper()
	programs, err := cluster.Programs(s.release)
	if err != nil {
		t.Fatal(err)
	}
	config.Programs, config.Metadata = programs, s.metadata
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// own starts a store for one test.
func (s setting) own(t testing.TB, config cluster.Config) *cluster.Cluster {
	t.Helper()
	c := s.start(t, config)
	t.Cleanup(c.Close)
	return c
}

// eachSetting runs a test on all shared stores.
func eachSetting(t *testing.T, test func(*testing.T, setting)) {
	for _, s := range settings {
		t.Run(s.name(), func(t *testing.T) { test(t, s) })
	}
}

// patience bounds what takes a moment on an idle machine.
const patience = time.Minute

// within returns a context for a test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// dial returns a client of a store over TCP, changed as the test wants.
func dial(t testing.TB, c *cluster.Cluster, changes ...func(*Config)) *Client {
	t.Helper()
	config := Config{Master: c.Master(), Metadata: c.Metadata(), SharedMemory: sharedMemoryOff}
	for _, change := range changes {
		change(&config)
	}
	client, err := Dial(within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// names returns n keys that no other test has.
func names(t testing.TB, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%s/%08x/%d", strings.ReplaceAll(t.Name(), "/", ":"), rand.Uint32(), i)
	}
	return keys
}

// objectsOf returns items of these sizes with random bytes under new keys.
func objectsOf(t testing.TB, sizes ...int) []Item {
	items := make([]Item, len(sizes))
	for i, key := range names(t, len(sizes)) {
		items[i] = Item{Key: key, Bytes: random(sizes[i])}
	}
	return items
}

func random(size int) []byte {
	b := make([]byte, size)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], rand.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// blanks returns items of the same keys and sizes with zeroed buffers.
func blanks(items []Item) []Item {
	out := make([]Item, len(items))
	for i, item := range items {
		out[i] = Item{Key: item.Key, Bytes: make([]byte, len(item.Bytes))}
	}
	return out
}

func keysIn(items []Item) []string {
	keys := make([]string, len(items))
	for i, item := range items {
		keys[i] = item.Key
	}
	return keys
}

// none fails the test for each error.
func none(t testing.TB, what string, errs []error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// holds fails the test unless the store returns what was put.
func holds(t testing.TB, c *Client, put []Item) {
	t.Helper()
	got := blanks(put)
	none(t, "get", c.BatchGet(within(t), got))
	for i := range put {
		if !bytes.Equal(got[i].Bytes, put[i].Bytes) {
			t.Errorf("%q: other bytes came back", put[i].Key)
		}
	}
}

// tidy removes what a test has put, so that the others have room.
func tidy(t testing.TB, c *Client, items []Item) {
	t.Helper()
	t.Cleanup(func() { c.BatchRemove(within(t), keysIn(items), true) })
}
