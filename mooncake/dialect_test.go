package mooncake

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/internal/cluster"
)

// A relay passes connections on to a server that can be changed.
type relay struct {
	net.Listener
	to      atomic.Pointer[string]
	serving sync.WaitGroup
	mu      struct {
		sync.Mutex
		conns []net.Conn
	}
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l}
	r.to.Store(&to)
	r.serving.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			r.serving.Go(func() { r.pass(from) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		r.cut()
		r.serving.Wait()
	})
	return r
}

func (r *relay) pass(from net.Conn) {
	to, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", *r.to.Load())
	if err != nil {
		_ = from.Close()
		return
	}
	r.mu.Lock()
	r.mu.conns = append(r.mu.conns, from, to)
	r.mu.Unlock()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
		})
	}
	both.Wait()
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.mu.conns {
		_ = conn.Close()
	}
	r.mu.conns = nil
}

// A master that is replaced by one of another version is spoken to in that.
func TestMasterOfAnotherVersion(t *testing.T) {
	old := setting{cluster.VersionOld, cluster.MetadataP2P, "0.3.11"}.store(t)
	current := setting{cluster.Version, cluster.MetadataP2P, "0.3.13"}.store(t)
	r := newRelay(t, old.Master())
	c := dial(t, old, func(config *Config) { config.Master = r.Addr().String() })
	put := objectsOf(t, 1000)
	tidy(t, c, put)
	none(t, "put", c.BatchPut(within(t), put))
	for _, next := range []struct {
		store *cluster.Cluster
		wire  string
	}{{current, "0.3.13"}, {old, "0.3.11"}} {
		to := next.store.Master()
		r.to.Store(&to)
		r.cut()
		put := objectsOf(t, 1000)
		tidy(t, dial(t, next.store), put)
		none(t, "put", c.BatchPut(within(t), put))
		holds(t, c, put)
		if c.WireVersion() != next.wire {
			t.Errorf("speaks %s, want %s", c.WireVersion(), next.wire)
		}
	}
}

// Also when it is replaced in the middle of a call.
func TestMasterOfAnotherVersionDuringACall(t *testing.T) {
	old := setting{cluster.VersionOld, cluster.MetadataP2P, "0.3.11"}.own(t, cluster.Config{})
	current := setting{cluster.Version, cluster.MetadataP2P, "0.3.13"}.store(t)
	r := newRelay(t, old.Master())
	c := dial(t, old, func(config *Config) { config.Master, config.CallTimeout = r.Addr().String(), patience })
	freeze(t, old.MasterPID())
	result := make(chan error, 1)
	go func() {
		_, err := c.BatchExist(within(t), names(t, 1))
		result <- err
	}()
	time.Sleep(200 * time.Millisecond) // for the call to be sent
	to := current.Master()
	r.to.Store(&to)
	r.cut()
	if err := <-result; err != nil || c.WireVersion() != "0.3.13" {
		t.Errorf("speaks %s, %v", c.WireVersion(), err)
	}
}

// A master that runs with tenants keeps them apart, in room and in names.
func TestTenantsAreKeptApart(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "tenants.yaml")
	text := "version: 1\ntenants:\n  - {name: a, quota: 1MB}\n  - {name: b, quota: 1MB}\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	store := latest.own(t, cluster.Config{
		MasterFlags: []string{"--enable_multi_tenants=true", "--tenant_quota_connector_uri=" + policy},
	})
	tenant := func(name string) *Client { return dial(t, store, func(config *Config) { config.Tenant = name }) }
	a, b := tenant("a"), tenant("b")
	key := names(t, 1)[0]
	ofA, ofB := []Item{{Key: key, Bytes: random(1000)}}, []Item{{Key: key, Bytes: random(2000)}}
	none(t, "put", a.BatchPut(within(t), ofA))
	if err := b.BatchGet(within(t), blanks(ofB))[0]; !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	none(t, "put", b.BatchPut(within(t), ofB))
	holds(t, a, ofA)
	holds(t, b, ofB)
	if err := a.BatchPut(within(t), objectsOf(t, 1<<20))[0]; !errors.Is(err, ErrNoSpace) {
		t.Errorf("beyond the quota: %v", err)
	}
	if err := tenant("").BatchPut(within(t), objectsOf(t, 1000))[0]; !errors.Is(err, ErrTenant) {
		t.Errorf("a tenant without a quota: %v", err)
	}
	// The owner's own tenant is another one.
	_, err := Dial(within(t), Config{Master: store.Master(), Metadata: store.Metadata(), Tenant: "a", SharedMemory: store.Owner()})
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("shared memory of another tenant: %v", err)
	}
}

// A master that does not run with tenants puts all of them into one, and one that
// is too old has none.
func TestTenants(t *testing.T) {
	tenant := func(name string) func(*Config) { return func(config *Config) { config.Tenant = name } }
	store := latest.store(t)
	a, b := dial(t, store, tenant("a")), dial(t, store, tenant("b"))
	put := objectsOf(t, 1000)
	tidy(t, a, put)
	none(t, "put", a.BatchPut(within(t), put))
	holds(t, b, put)

	old := oldest.store(t)
	_, err := Dial(within(t), Config{Master: old.Master(), Metadata: old.Metadata(), Tenant: "a"})
	if !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}
