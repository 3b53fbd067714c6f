package shm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/internal/cluster"
)

func TestPutAndGet(t *testing.T) {
	for version := range configs {
		t.Run(version, func(t *testing.T) {
			c := commonCluster(t, version)
			s := openSession(t, c, version, Options{ArenaBytes: 64 << 20})
			ctx := within(t, 30*time.Second)
			sizes := []int{1, 4096, 100_000, 1<<20 + 80}
			var puts, gets []Item
			for i, size := range sizes {
				key := fmt.Sprint(t.Name(), i)
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

func TestResults(t *testing.T) {
	for version := range configs {
		t.Run(version, func(t *testing.T) {
			c := startCluster(t, version, cluster.Config{SegmentBytes: 32 << 20})
			s := openSession(t, c, version, Options{ArenaBytes: 128 << 20})
			small, large := alloc(t, s, 4096), alloc(t, s, 8192)
			fillWith(large.Bytes(), 'l')
			mustPut(t, s, "key", large.Bytes())
			if r := get(t, s, "missing", small.Bytes()); r.Code != codeNotFound {
				t.Errorf("a key without an object: %+v", r)
			}
			if r := get(t, s, "key", small.Bytes()); r.Code != codeInvalidParameters {
				t.Errorf("a buffer that is too small: %+v", r)
			}
			mustPut(t, s, "short", large.Bytes()[:4096])
			if r := get(t, s, "short", large.Bytes()); r != (Result{Bytes: 4096}) {
				t.Errorf("an object that is shorter: %+v", r)
			}
			// A second put changes nothing, and says so to nobody.
			mustPut(t, s, "key", small.Bytes())
			if r := get(t, s, "key", large.Bytes()); r.Bytes != 8192 || large.Bytes()[0] != 'l' {
				t.Errorf("after a second put: %+v", r)
			}
			huge := alloc(t, s, 64<<20)
			r, err := s.Put(within(t, 20*time.Second), []Item{{"huge", huge.Bytes()}, {"fits", small.Bytes()}})
			if err != nil || r[0].Code != -200 || r[1].Code != 0 {
				t.Errorf("more than the store has: %+v, %v", r, err)
			}
			if s.Err() != nil {
				t.Errorf("the session ended: %v", s.Err())
			}
		})
	}
}

// The process serves only the last of several items with one key: they travel
// apart.
func TestAKeyTwiceInABatch(t *testing.T) {
	c := commonCluster(t, cluster.Version)
	s := openSession(t, c, cluster.Version, Options{})
	ctx := within(t, 20*time.Second)
	first, second := alloc(t, s, 4096), alloc(t, s, 4096)
	fillWith(first.Bytes(), '1')
	fillWith(second.Bytes(), '2')
	if r, err := s.Put(ctx, []Item{{t.Name(), first.Bytes()}, {t.Name(), second.Bytes()}}); err != nil || r[0].Code != 0 || r[1].Code != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	a, b := alloc(t, s, 4096), alloc(t, s, 4096)
	r, err := s.Get(ctx, []Item{{t.Name(), a.Bytes()}, {t.Name(), b.Bytes()}})
	if err != nil || r[0].Bytes != 4096 || r[1].Bytes != 4096 {
		t.Fatalf("%+v, %v", r, err)
	}
	if !bytes.Equal(a.Bytes(), first.Bytes()) || !bytes.Equal(b.Bytes(), first.Bytes()) {
		t.Errorf("got %q and %q", a.Bytes()[0], b.Bytes()[0])
	}
}

func TestPorts(t *testing.T) {
	c := commonCluster(t, cluster.Version)
	found, err := Ports()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(found, func(port int) bool { return c.Owner() == fmt.Sprintf("127.0.0.1:%d", port) }) {
		t.Errorf("%v lacks %s", found, c.Owner())
	}
}

func TestPortsOfATable(t *testing.T) {
	table := `Num       RefCount Protocol Flags    Type St Inode Path
ffff88: 00000002 00000000 00010000 0001 01 42968 @@mooncake_client_51053.sock
ffff89: 00000003 00000000 00000000 0001 03 42969 @@mooncake_client_51054.sock
ffff8a: 00000002 00000000 00010000 0001 01 42970 @@mooncake_client_99999.sock
ffff8b: 00000002 00000000 00010000 0001 01 42971 @@mooncake_client_80.sock
ffff8c: 00000002 00000000 00010000 0001 01 42972 /tmp/@@mooncake_client_81.sock
ffff8d: 00000002 00000000 00010000 0001 01 42973
`
	if got := ports([]byte(table)); !slices.Equal(got, []int{80, 51053}) {
		t.Errorf("%v", got)
	}
}

// Many puts and gets, a part of which is given up at random, and whose memory is
// used at once for something else: whatever a get returned without an error is
// the object, and the session stays.
func TestCallsGivenUpAtRandom(t *testing.T) {
	c := commonCluster(t, cluster.Version)
	s := openSession(t, c, cluster.Version, Options{ArenaBytes: 64 << 20})
	const objects, size = 20, 300_000
	b := alloc(t, s, size)
	for i := range objects {
		fillWith(b.Bytes(), byte(i))
		mustPut(t, s, fmt.Sprint(t.Name(), i), b.Bytes())
	}
	patience := within(t, time.Minute)
	var workers sync.WaitGroup
	var got, givenUp atomic.Int64
	for w := range 4 {
		workers.Go(func() {
			rng := mathrand.New(mathrand.NewPCG(uint64(w), 1)) //nolint:gosec // small
			for range 150 {
				buffer, err := s.Alloc(size)
				for err != nil { // the memory of calls that were given up comes back when the process answers
					if !errors.Is(err, ErrFull) || patience.Err() != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
					buffer, err = s.Alloc(size)
				}
				i := rng.IntN(objects)
				limit := 20 * time.Second
				if rng.IntN(2) == 0 {
					limit = time.Duration(rng.IntN(1000)) * time.Microsecond
				}
				ctx, cancel := context.WithTimeout(patience, limit)
				r, err := s.Get(ctx, []Item{{fmt.Sprint(t.Name(), i), buffer.Bytes()}})
				cancel()
				want := byte(i) //nolint:gosec // small
				switch {
				case err == nil && r[0].Bytes == size:
					got.Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					givenUp.Add(1)
					want = 200
					fillWith(buffer.Bytes(), want)
					time.Sleep(time.Millisecond)
				default:
					t.Errorf("%+v, %v", r, err)
				}
				if n := bytes.Count(buffer.Bytes(), []byte{want}); n != size {
					t.Errorf("%d of %d bytes are %d", n, size, want)
				}
				buffer.Free()
			}
		})
	}
	workers.Wait()
	t.Logf("%d gets, %d of them given up", got.Load()+givenUp.Load(), givenUp.Load())
	if err := s.Err(); err != nil || got.Load() == 0 || givenUp.Load() == 0 {
		t.Errorf("%d got, %d given up, %v", got.Load(), givenUp.Load(), err)
	}
}
