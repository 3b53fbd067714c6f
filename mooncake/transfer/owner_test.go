package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/internal/cluster"
	"ollamoon/mooncake"
	"ollamoon/mooncake/transfer"
)

// An owned is the memory of a real owner. Its master gives nothing of it to anyone
// but for the object of endpointOf, which these tests overwrite.
type owned struct {
	cluster  *cluster.Cluster
	pool     *transfer.Pool
	endpoint string
	memory   transfer.Range
	version  int
}

func startOwner(t testing.TB, version, metadata string, options transfer.Options) *owned {
	t.Helper()
	programs, err := cluster.Programs(version)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	c, err := cluster.Start(ctx, cluster.Config{Programs: programs, Metadata: metadata, SegmentBytes: 160 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	resolver := transfer.P2PHandshake()
	if strings.HasPrefix(c.Metadata(), "http") {
		resolver = transfer.HTTPMetadata(c.Metadata())
	}
	endpoint := endpointOf(ctx, t, c)
	target, err := resolver.Resolve(ctx, endpoint)
	if err != nil || len(target.Buffers) == 0 {
		t.Fatalf("%+v, %v", target, err)
	}
	pool := transfer.NewPool(resolver, options)
	t.Cleanup(pool.Close)
	return &owned{c, pool, endpoint, target.Buffers[0], target.Version}
}

// endpointOf returns the name of the owner's endpoint, as descriptors have it.
func endpointOf(ctx context.Context, t testing.TB, c *cluster.Cluster) string {
	t.Helper()
	client, err := mooncake.Dial(ctx, mooncake.Config{Master: c.Master(), Metadata: c.Metadata(), SharedMemory: "off"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }() //nolint:contextcheck // it has none
	if err := client.BatchPut(ctx, []mooncake.Item{{Key: "key", Bytes: []byte("object")}})[0]; err != nil {
		t.Fatal(err)
	}
	objects, err := client.BatchQuery(ctx, []string{"key"})
	if err != nil || len(objects[0].Replicas) != 1 {
		t.Fatalf("%+v, %v", objects, err)
	}
	return objects[0].Replicas[0].Endpoint
}

// testContext is done a while before the test binary gives up.
func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func pattern(n int, seed uint64) []byte {
	rng := mathrand.New(mathrand.NewPCG(seed, 7)) //nolint:gosec // reproducible
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32()) //nolint:gosec // its low bits
	}
	return b
}

func TestRealOwners(t *testing.T) {
	for _, c := range []struct {
		version, metadata string
		protocol          int
	}{
		{cluster.Version, cluster.MetadataHTTP, 2},
		{cluster.Version, cluster.MetadataP2P, 2},
		{cluster.VersionOld, cluster.MetadataHTTP, 1},
		{cluster.VersionOld, cluster.MetadataP2P, 1},
	} {
		t.Run(fmt.Sprintf("%s %s", c.version, c.metadata), func(t *testing.T) {
			o := startOwner(t, c.version, c.metadata, transfer.Options{})
			if o.version != c.protocol {
				t.Fatalf("protocol %d, want %d", o.version, c.protocol)
			}
			t.Run("bytes", o.testBytes)
			t.Run("rejection", o.testRejection)
			t.Run("given up", o.testGivenUp)
			t.Run("killed", o.testKilled)
		})
	}
}

// What one call has written, another reads, whatever the size and address, also
// over another connection.
func (o *owned) testBytes(t *testing.T) {
	ctx := testContext(t)
	at := o.memory.Addr + 3
	var calls sync.WaitGroup
	for i, size := range []int{1, 24, 4096, 65_537, 1 << 20, 1<<20 + 1, 5_000_000, 14<<20 + 80} {
		addr, want := at, pattern(size, uint64(i)) //nolint:gosec // small
		at += uint64(size)                         //nolint:gosec // positive
		calls.Go(func() {
			for range 3 {
				if err := o.pool.Write(ctx, o.endpoint, addr, want); err != nil {
					t.Error(err)
				}
				got := make([]byte, size)
				if err := o.pool.Read(ctx, o.endpoint, addr, got); err != nil {
					t.Error(err)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%d bytes read back differ", size)
				}
			}
		})
	}
	calls.Wait()
	if s := o.pool.Stats(); s.Opened > 4 || s.Retried != 0 || s.BytesRead != s.BytesWritten || s.Resolves > 4 {
		t.Errorf("%+v", s)
	}
}

func (o *owned) testRejection(t *testing.T) {
	ctx := testContext(t)
	end := o.memory.Addr + o.memory.Length
	for _, addr := range []uint64{0, o.memory.Addr - 1, end - 1, end} {
		if err := o.pool.Read(ctx, o.endpoint, addr, make([]byte, 2)); !errors.Is(err, transfer.ErrRejected) {
			t.Errorf("a read at %#x: %v", addr, err)
		}
		if err := o.pool.Write(ctx, o.endpoint, addr, make([]byte, 3<<20)); !errors.Is(err, transfer.ErrRejected) {
			t.Errorf("a write at %#x: %v", addr, err)
		}
	}
	if err := o.pool.Read(ctx, o.endpoint, end-2, make([]byte, 2)); err != nil {
		t.Errorf("the last bytes: %v", err)
	}
}

// Reads that are given up at random leave neither wrong bytes nor connections in
// the middle of an answer.
func (o *owned) testGivenUp(t *testing.T) {
	const size = 2 << 20
	want := pattern(size, 99)
	if err := o.pool.Write(testContext(t), o.endpoint, o.memory.Addr, want); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	var whole, givenUp atomic.Int64
	for w := range 4 {
		readers.Go(func() {
			rng := mathrand.New(mathrand.NewPCG(uint64(w), 5)) //nolint:gosec // reproducible
			got := make([]byte, size)
			for range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(6000))*time.Microsecond)
				err := o.pool.Read(ctx, o.endpoint, o.memory.Addr, got)
				cancel()
				switch {
				case errors.Is(err, context.DeadlineExceeded):
					givenUp.Add(1)
					clear(got)
				case err != nil:
					t.Error(err)
				case !bytes.Equal(got, want):
					t.Error("wrong bytes")
				default:
					whole.Add(1)
				}
			}
		})
	}
	readers.Wait()
	if whole.Load() == 0 || givenUp.Load() == 0 {
		t.Errorf("%d whole, %d given up", whole.Load(), givenUp.Load())
	}
}

func (o *owned) testKilled(t *testing.T) {
	ctx := testContext(t)
	if err := o.pool.Warm(ctx, o.endpoint); err != nil {
		t.Fatal(err)
	}
	o.cluster.KillOwner()
	for range 2 {
		begin := time.Now()
		if err := o.pool.Read(ctx, o.endpoint, o.memory.Addr, make([]byte, 1)); !errors.Is(err, transfer.ErrUnreachable) && !errors.Is(err, transfer.ErrResolve) {
			t.Errorf("%v", err)
		}
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
	}
	if s := o.pool.Stats(); s.Idle != 0 {
		t.Errorf("%+v", s)
	}
}

// BenchmarkOwner moves objects of 14 MiB: eight for each write, seven for each
// read, at once, and the same one after the other on one connection.
func BenchmarkOwner(b *testing.B) {
	const size = 14<<20 + 80
	for _, connections := range []int{1, 2, 4} {
		o := startOwner(b, cluster.Version, cluster.MetadataHTTP, transfer.Options{Connections: connections})
		buffers := make([][]byte, 8)
		for i := range buffers {
			buffers[i] = pattern(size, uint64(i)) //nolint:gosec // small
		}
		each := func(b *testing.B, n int, do func(context.Context, string, uint64, []byte) error) {
			b.Helper()
			b.SetBytes(int64(n) * size)
			for b.Loop() {
				var calls sync.WaitGroup
				for i := range n {
					calls.Go(func() {
						if err := do(b.Context(), o.endpoint, o.memory.Addr+uint64(i)*size, buffers[i]); err != nil { //nolint:gosec // small
							b.Error(err)
						}
					})
				}
				calls.Wait()
			}
		}
		b.Run(fmt.Sprintf("write/%d", connections), func(b *testing.B) { each(b, 8, o.pool.Write) })
		b.Run(fmt.Sprintf("read/%d", connections), func(b *testing.B) { each(b, 7, o.pool.Read) })
	}
}
