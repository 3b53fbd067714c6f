package supervise

import (
	"bytes"
	"sync"
)

// tail keeps the last tailBytes written to it. The zero value is empty.
type tail struct {
	mu struct {
		sync.Mutex
		bytes   []byte // at most twice tailBytes
		dropped bool   // something came before
	}
}

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(b)
	if n > tailBytes {
		b = b[n-tailBytes:]
		t.mu.dropped = true
	}
	t.mu.bytes = append(t.mu.bytes, b...)
	if extra := len(t.mu.bytes) - tailBytes; extra > tailBytes {
		t.mu.bytes = append(t.mu.bytes[:0], t.mu.bytes[extra:]...)
		t.mu.dropped = true
	}
	return n, nil
}

// String returns what is kept, from the start of a line where something was
// dropped.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept, dropped := t.mu.bytes, t.mu.dropped
	if extra := len(kept) - tailBytes; extra > 0 {
		kept, dropped = kept[extra:], true
	}
	if dropped {
		if i := bytes.IndexByte(kept, '\n'); i >= 0 {
			kept = kept[i+1:]
		}
	}
	return string(kept)
}
