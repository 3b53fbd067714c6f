package storetest

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/store"
)

// RoomBytes is what a store under test has to hold without evicting anything.
const RoomBytes = 128 << 20

// patience bounds every wait: longer than any store needs on a loaded machine.
const patience = time.Minute

// A Config is a backend under test.
type Config struct {
	// Open returns a store with room for RoomBytes. The suite closes it.
	Open func(t *testing.T) store.Store

	// Corrupt changes the byte at offset of a key's stored object, behind the
	// store's back.
	Corrupt func(t *testing.T, s store.Store, key string, offset int)

	// Another opens a second store over the same objects, as another process
	// has it. Nil says that the backend keeps its objects in the store itself.
	Another func(t *testing.T, s store.Store) store.Store

	// VagueExists says that several puts of a key at once may all report that they
	// stored their object.
	VagueExists bool

	// StaleReads says that reading a key while it is discarded and put again may
	// return bytes that are not the object's, with no error; the seal has to find
	// them.
	StaleReads bool
}

// Run tests a backend.
func Run(t *testing.T, c Config) {
	t.Helper()
	for _, b := range []struct {
		name string
		test func(t *testing.T, c Config, s store.Store)
	}{
		{"an empty batch asks for nothing", testEmptyBatches},
		{"objects of many sizes come back as they were put", testRoundTrips},
		{"a missing object is ErrNotFound", testMissing},
		{"an object of another length is ErrLength", testLength},
		{"an item without bytes is ErrLength", testNoBytes},
		{"each item of a mixed batch has its own result", testMixedBatches},
		{"a key may stand in a batch twice", testRepeatedKeys},
		{"Done is called once for each whole object", testDone},
		{"a put of a present key changes nothing", testPutIfAbsent},
		{"of many publishers of a key one succeeds", testPublishers},
		{"what one store puts another reads", testAnother},
		{"a discarded key can be put again", testDiscard},
		{"a bad page does not poison its key", testBadPage},
		{"keys are any bytes or refused", testKeys},
		{"a context that is done ends every call", testDoneContext},
		{"cancelling a read leaves the buffers alone", testCancelGet},
		{"cancelling a put leaves whole objects and no blocked key", testCancelPut},
		{"a buffer is memory and freed once", testAlloc},
		{"Close ends calls and waits for them", testClose},
		{"a closed store says so", testClosed},
		{"readers and writers at once see sealed pages", testConcurrent},
	} {
		t.Run(b.name, func(t *testing.T) {
			leaks := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, leaks) })
			s := c.Open(t)
			t.Cleanup(func() { closeStore(t, s) })
			b.test(t, c, s)
		})
	}
}

func closeStore(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("closing: %v", err)
	}
}

// within returns a context for one call that is expected to take far less time.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

var (
	run     = rand.Uint64() //nolint:gosec // differs between processes
	counted atomic.Uint64
)

// newKey returns a key that was never used, in the form of a page's.
func newKey() string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rand.Uint32()) //nolint:gosec // no secret
	}
	return fmt.Sprintf("storetest/run:%x-%d@00112233445566778899aabbccddeeff/%s", run, counted.Add(1), hex.EncodeToString(b[:]))
}

func newKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = newKey()
	}
	return keys
}

// content returns size bytes that no other seed has.
func content(seed string, size int) []byte {
	var key [32]byte
	copy(key[:], seed)
	key[31] ^= byte(len(seed)) //nolint:gosec // mixed in, whatever its size
	for i := 32; i < len(seed); i++ {
		key[i%31] = key[i%31]*31 + seed[i]
	}
	b := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

// put stores objects that have to be new.
func put(t *testing.T, s store.Store, items ...store.Item) {
	t.Helper()
	for i, err := range batchPut(t, s, items) {
		if err != nil {
			t.Fatalf("putting %d bytes as %q: %v", len(items[i].Bytes), items[i].Key, err)
		}
	}
}

func batchPut(t *testing.T, s store.Store, items []store.Item) []error {
	t.Helper()
	return oneEach(t, items, s.BatchPut(within(t), items))
}

func batchGet(t *testing.T, s store.Store, items []store.Item) []error {
	t.Helper()
	return oneEach(t, items, s.BatchGet(within(t), items))
}

func oneEach(t *testing.T, items []store.Item, errs []error) []error {
	t.Helper()
	if len(errs) != len(items) {
		t.Fatalf("%d results for %d items", len(errs), len(items))
	}
	return errs
}

// get reads one object of a known size.
func get(t *testing.T, s store.Store, key string, size int) ([]byte, error) {
	t.Helper()
	b := make([]byte, size)
	err := batchGet(t, s, []store.Item{{Key: key, Bytes: b}})[0]
	return b, err
}

// holds fails the test unless the store has exactly this object.
func holds(t *testing.T, s store.Store, key string, want []byte) {
	t.Helper()
	got, err := get(t, s, key, len(want))
	if err != nil {
		t.Fatalf("reading %d bytes of %q: %v", len(want), key, err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("the %d bytes of %q are not those that were put", len(want), key)
	}
}

func exist(t *testing.T, s store.Store, keys ...string) []bool {
	t.Helper()
	present, err := s.BatchExist(within(t), keys)
	if err != nil {
		t.Fatalf("asking for %d keys: %v", len(keys), err)
	}
	if len(present) != len(keys) {
		t.Fatalf("%d answers for %d keys", len(present), len(keys))
	}
	return present
}

func discard(t *testing.T, s store.Store, key string) {
	t.Helper()
	if err := s.Discard(within(t), key); err != nil {
		t.Fatalf("discarding %q: %v", key, err)
	}
}
