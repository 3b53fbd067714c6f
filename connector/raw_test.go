package connector_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ollamoon/connector"
	"ollamoon/internal/cluster"
	"ollamoon/mooncake"
	"ollamoon/mooncake/rpc"
	"ollamoon/mooncake/structpack"
	"ollamoon/mooncake/transfer"
	storemooncake "ollamoon/store/mooncake"
)

// A rawWriter asks a master for the single steps of a put, in the protocol of
// 0.3.13 or 0.3.11, and leaves out what it likes.
type rawWriter struct {
	conn *rpc.Conn
	id   [2]uint64
	old  bool // the protocol is that of 0.3.11
}

func newRawWriter(t *testing.T, c *cluster.Cluster) *rawWriter {
	t.Helper()
	conn := rpc.New(c.Master(), rpc.Options{})
	t.Cleanup(func() { _ = conn.Close() })
	return &rawWriter{conn: conn, id: [2]uint64{rand.Uint64(), rand.Uint64()}}
}

// start begins a put.
func (w *rawWriter) start(ctx context.Context, key string, size int) error {
	names := structpack.Vector(structpack.String)
	config := structpack.Struct(
		structpack.U64, structpack.U64, structpack.U64, structpack.U8, structpack.Optional(structpack.U64), structpack.Bool,
		names, structpack.String, names, structpack.Bool, structpack.U8, structpack.String, structpack.Optional(names))
	arguments := structpack.Struct(structpack.UUID, names, structpack.Vector(structpack.U64), config, structpack.String)
	if w.old {
		config = structpack.Struct(structpack.U64, structpack.U64, structpack.Bool, structpack.Bool,
			names, structpack.String, names, structpack.Bool, structpack.U8)
		arguments = structpack.Struct(structpack.UUID, names, structpack.Vector(structpack.U64), config)
	}
	_, err := w.conn.Call(ctx, "mooncake::WrappedMasterService::BatchPutStart", structpack.Encode(arguments, func(out *structpack.Writer) {
		out.UUID(w.id)
		structpack.WriteSlice(out, []string{key}, out.String)
		structpack.WriteSlice(out, []uint64{uint64(size)}, out.U64) //nolint:gosec // a length
		out.U64(1)                                                  // replicas in memory
		out.U64(0)
		if !w.old {
			out.U64(0)
			out.U8(0)
		}
		out.Bool(false)
		out.Bool(false)
		out.Len(0)
		out.String("")
		out.Len(0)
		out.Bool(false)
		out.U8(0)
		if !w.old {
			out.String("")
			out.Bool(false)
			out.String("default")
		}
	}))
	return err
}

// end ends a put: others see the object from then on.
func (w *rawWriter) end(ctx context.Context, key string) error {
	object := structpack.Struct(structpack.String, structpack.Optional(structpack.U64))
	arguments := structpack.Struct(structpack.UUID, structpack.Vector(object), structpack.I32, structpack.String)
	if w.old {
		arguments = structpack.Struct(structpack.UUID, structpack.Vector(structpack.String), structpack.I32)
	}
	_, err := w.conn.Call(ctx, "mooncake::WrappedMasterService::BatchPutEnd", structpack.Encode(arguments, func(out *structpack.Writer) {
		out.UUID(w.id)
		structpack.WriteSlice(out, []string{key}, func(key string) {
			out.String(key)
			if !w.old {
				out.Bool(false) // no checksum
			}
		})
		out.I32(4) // all replicas
		if !w.old {
			out.String("default")
		}
	}))
	return err
}

// A place is where an object's only replica is.
type place struct {
	endpoint string
	address  uint64
	size     uint64
}

// placeOf asks where a key's object is, which gives that a lease.
func placeOf(ctx context.Context, client *mooncake.Client, key string) (place, error) {
	found, err := client.BatchQuery(ctx, []string{key})
	if err == nil {
		err = found[0].Err
	}
	if err != nil {
		return place{}, err
	}
	if n := len(found[0].Replicas); n != 1 {
		return place{}, fmt.Errorf("%q has %d replicas", key, n)
	}
	r := found[0].Replicas[0]
	return place{r.Endpoint, r.Address, r.Size}, nil
}

// spoil changes bytes in an owner's memory, as anyone can who reaches the owner.
func spoil(ctx context.Context, p place, offset, n int, change func([]byte)) error {
	pool := transfer.NewPool(transfer.P2PHandshake(), transfer.Options{})
	defer pool.Close()
	b := make([]byte, n)
	at := p.address + uint64(offset) //nolint:gosec // within the object
	if err := pool.Read(ctx, p.endpoint, at, b); err != nil {
		return err
	}
	change(b)
	return pool.Write(ctx, p.endpoint, at, b)
}

// replace puts another object under a key that may have one.
func replace(ctx context.Context, client *mooncake.Client, key string, object []byte) error {
	if err := client.BatchRemove(ctx, []string{key}, true)[0]; err != nil && !errors.Is(err, mooncake.ErrNotFound) {
		return err
	}
	return client.BatchPut(ctx, []mooncake.Item{{Key: key, Bytes: object}})[0]
}

// raw reads an object as it is.
func raw(t *testing.T, client *mooncake.Client, key string) []byte {
	t.Helper()
	p, err := placeOf(within(t), client, key)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, p.size)
	if err := client.BatchGet(within(t), []mooncake.Item{{Key: key, Bytes: b}})[0]; err != nil {
		t.Fatal(err)
	}
	return b
}

// writerVariable makes the test binary a process that publishes one prompt.
const writerVariable = "OLLAMOON_TEST_WRITER"

type writerOrder struct {
	Master, Metadata string
	Prompt           prompt
}

func playWriter(text string) {
	var order writerOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := storemooncake.Open(ctx, mooncake.Config{Master: order.Master, Metadata: order.Metadata, SharedMemory: "off"})
	if err != nil {
		panic(err)
	}
	config := pagesOf(pageBytes)
	c, err := connector.New(s, config)
	if err != nil {
		panic(err)
	}
	pages, err := config.Keys.Pages(order.Prompt)
	if err != nil {
		panic(err)
	}
	buffers := make([][]byte, len(pages))
	for i := range buffers {
		buffers[i] = make([]byte, c.ObjectBytes())
		compute(buffers[i][:pageBytes], pages[i].Hash)
	}
	_, err = c.StoreComputedPrefix(ctx, order.Prompt, buffers)
	panic(fmt.Sprintf("the writer was not killed: %v", err))
}

// startWriter starts a process that publishes a prompt, and returns what kills it.
func startWriter(t *testing.T, c *cluster.Cluster, p prompt) (kill func()) {
	t.Helper()
	order, err := json.Marshal(writerOrder{c.Master(), c.Metadata(), p})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(within(t), self)
	child.Env = append(os.Environ(), writerVariable+"="+string(order))
	var output bytes.Buffer
	child.Stderr = &output
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
		if output.Len() > 0 {
			t.Errorf("the writer had ended before it was killed: %s", output.String())
		}
	})
	t.Cleanup(end)
	return end
}

// freeze stops a process until the returned function is called.
func freeze(t *testing.T, pid int) (thaw func()) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(thaw)
	await(t, "a process to stop", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return !slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			return err == nil && !strings.Contains(string(stat), ") T ")
		})
	})
	return thaw
}
