package bench

import (
	"bytes"
	"testing"

	"ollamoon/page"
)

func TestLimits(t *testing.T) {
	const pages, size = 3, 1 << 20
	l, err := newLimits(t.Context(), self(t, roleSender), pages, size)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := l.measure(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if got := l.results().LoopbackTCPMBs; got != 0 {
		t.Errorf("a warm-up was recorded: %v MB/s", got)
	}
	if err := l.measure(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if r := l.results(); r.LoopbackTCPMBs <= 0 || r.MemcpyMBs <= 0 || r.ChecksumMBs <= 0 || r.MACMBs <= 0 {
		t.Errorf("%+v", r)
	}
	// The stream carries the sender's own bytes, the same each time.
	first := make([][]byte, pages)
	for turn := range 2 {
		for _, b := range l.copies {
			clear(b)
		}
		if err := l.sender.receive(t.Context(), l.copies); err != nil {
			t.Fatal(err)
		}
		for i, b := range l.copies {
			if turn == 0 {
				first[i] = bytes.Clone(b)
			} else if !bytes.Equal(first[i], b) {
				t.Errorf("page %d differs between two turns", i)
			}
			if bytes.Count(b[:size], []byte{0}) > size/64 || !bytes.Equal(b[size:], make([]byte, page.TrailerBytes)) {
				t.Errorf("page %d has not %d random bytes", i, size)
			}
		}
	}
}
