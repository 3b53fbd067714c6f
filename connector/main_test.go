package connector_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/cluster"
)

// The tests in this package's external half run on real Mooncake stores. These
// are the ones that they share.
var (
	// steady is where nothing is evicted and nothing restarts.
	steady = setting{config: cluster.Config{LeaseTTL: time.Minute, SegmentBytes: 64 << 20}}
	// tight is small, its leases are short, and it soon gives up on puts.
	tight = setting{config: cluster.Config{
		LeaseTTL: tightLease, SegmentBytes: 16 << 20,
		MasterFlags: []string{
			fmt.Sprintf("--put_start_discard_timeout_sec=%d", tightDiscard/time.Second),
			fmt.Sprintf("--put_start_release_timeout_sec=%d", tightDiscard/time.Second+1),
		},
	}}
	// fragile is where programs end and start again.
	fragile = setting{config: cluster.Config{LeaseTTL: time.Minute, ClientTTL: 5 * time.Second, SegmentBytes: 32 << 20}}
)

const (
	tightLease   = 2 * time.Second
	tightDiscard = 2 * time.Second // after that a put that has not ended blocks no other
)

const (
	pageTokens = 8
	pageBytes  = 16 << 10
	// patience bounds what takes a moment on an idle machine.
	patience = time.Minute
	// soon is what a call that cannot succeed may take on a busy machine.
	soon = 20 * time.Second
)

var planes = []string{"tcp", "shared memory"}

type setting struct {
	config  cluster.Config
	mu      sync.Mutex
	cluster *cluster.Cluster
}

func TestMain(m *testing.M) {
	if order := os.Getenv(writerVariable); order != "" {
		playWriter(order)
		return
	}
	code := m.Run()
	for _, s := range []*setting{&steady, &tight, &fragile} {
		if s.cluster != nil {
			s.cluster.Close()
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// start returns the setting's store, which runs until the tests end. Its master
// has by then forgotten the owners that earlier tests have killed.
func (s *setting) start(t *testing.T) *cluster.Cluster {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		s.cluster = run(t, s.config)
	}
	settled(t, s.cluster)
	return s.cluster
}

func settled(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	await(t, "the master to know one owner", func() bool {
		segments, err := c.Segments(within(t))
		return err == nil && len(segments) == 1
	})
}

// run starts a store that its caller closes.
func run(t *testing.T, config cluster.Config) *cluster.Cluster {
	t.Helper()
	config.Metadata = cluster.MetadataP2P
	c, err := cluster.Start(within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eachPlane runs a test over TCP and through shared memory.
func eachPlane(t *testing.T, test func(t *testing.T, plane string)) {
	for _, plane := range planes {
		t.Run(plane, func(t *testing.T) { test(t, plane) })
	}
}

// bounded fails the test when what it runs takes long.
func bounded(t *testing.T, what string, do func()) {
	t.Helper()
	begin := time.Now()
	do()
	if took := time.Since(begin); took > soon {
		t.Errorf("%s took %v, more than %v", what, took, soon)
	}
}

// await waits until something is so.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// leakless fails the test when goroutines or sockets are left at its end that
// were not there when leakless was called. Those of programs that the test has
// started again are looked at when all tests are over.
func leakless(t *testing.T) {
	t.Helper()
	before := sockets()
	ignored := []goleak.Option{
		goleak.IgnoreCurrent(),
		goleak.IgnoreAnyFunction("ollamoon/internal/supervise.(*Process).run"),
		goleak.IgnoreAnyFunction("ollamoon/internal/supervise.answerBinds"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"),
	}
	t.Cleanup(func() {
		goleak.VerifyNone(t, ignored...)
		if after := sockets(); after > before {
			t.Errorf("%d sockets are open, %d were before", after, before)
		}
	})
}

// sockets counts this process's open ones; it is 0 where the system does not tell.
func sockets() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	n := 0
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}
