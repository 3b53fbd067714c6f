package offheap

import (
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func (p *pool) keeps() (buffers, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.kept), p.mu.bytes
}

func TestMemoryIsUsedAgain(t *testing.T) {
	p := &pool{most: 3 * minBytes, wait: time.Hour}
	defer p.empty()
	a, b := p.get(minBytes), p.get(minBytes+1)
	for _, one := range []*Buffer{a, b} {
		if start := uintptr(unsafe.Pointer(unsafe.SliceData(one.Bytes()))); start%uintptr(os.Getpagesize()) != 0 { //nolint:gosec // only its value is looked at
			t.Errorf("memory starts at %#x", start)
		}
	}
	a.Bytes()[minBytes-1] = 7
	a.Free()
	a.Free()
	if n, bytes := p.keeps(); n != 1 || bytes != minBytes {
		t.Errorf("%d buffers of %d bytes are kept, not the one that was freed", n, bytes)
	}
	if other := p.get(minBytes + 2); other.Bytes()[minBytes-1] != 0 {
		t.Error("memory of another size was used again")
	}
	again := p.get(minBytes)
	if again.Bytes()[minBytes-1] != 7 || len(again.Bytes()) != minBytes || cap(again.Bytes()) != minBytes {
		t.Errorf("a buffer of %d bytes is not the one that was freed", len(again.Bytes()))
	}
	// A late Free of the first owner takes nothing from the second.
	a.Free()
	if n, _ := p.keeps(); n != 0 {
		t.Error("memory in use was freed again")
	}
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	p := &pool{most: 3 * minBytes, wait: time.Hour}
	var all []*Buffer
	for range 5 {
		all = append(all, p.get(minBytes))
	}
	for _, b := range all {
		b.Free()
	}
	if n, bytes := p.keeps(); n != 3 || bytes != 3*minBytes {
		t.Errorf("%d buffers of %d bytes are kept", n, bytes)
	}
	p.get(10 * minBytes).Free()
	if n, bytes := p.keeps(); n != 0 || bytes != 0 {
		t.Errorf("%d buffers of %d bytes are kept, after one larger than the bound", n, bytes)
	}
}

func TestWhatIsKeptGoesAfterAWhile(t *testing.T) {
	p := &pool{most: 3 * minBytes, wait: time.Millisecond}
	p.get(minBytes).Free()
	p.get(minBytes).Free()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if n, bytes := p.keeps(); n == 0 && bytes == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("memory is kept for good")
		}
	}
}

func TestSmallBuffersAreGosOwn(t *testing.T) {
	p := &pool{most: minBytes, wait: time.Hour}
	p.get(1).Free()
	if n, _ := p.keeps(); n != 0 {
		t.Error("a byte is kept")
	}
}

func TestConcurrentUse(t *testing.T) {
	p := &pool{most: 4 * minBytes, wait: time.Millisecond}
	var users sync.WaitGroup
	for user := range 8 {
		users.Go(func() {
			for range 50 {
				b := p.get(minBytes + user%2)
				for i := range b.Bytes() {
					b.Bytes()[i] = byte(user)
				}
				for i, v := range b.Bytes() {
					if v != byte(user) {
						t.Errorf("byte %d is %d, another's", i, v)
						break
					}
				}
				b.Free()
			}
		})
	}
	users.Wait()
	p.empty()
}
