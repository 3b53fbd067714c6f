package bench

import (
	"context"
	"time"

	"ollamoon/internal/results"
	"ollamoon/internal/supervise"
	"ollamoon/page"
)

// limits is what the machine does without a store, measured with the same bytes
// as a reload. The bytes come from memory: they are more than caches hold.
type limits struct {
	pages, copies [][]byte
	sender        *stream
	checksum, mac *page.Sealer

	loopbackMBs, memcpyMBs, checksumMBs, macMBs []float64
}

func newLimits(ctx context.Context, sender supervise.Command, pages, pageBytes int) (*limits, error) {
	l := &limits{checksum: &page.Sealer{}}
	random := chaCha()
	key := make([]byte, page.KeyBytes)
	_, _ = random.Read(key) // never fails
	var err error
	if l.mac, err = page.NewKeyedSealer(key); err != nil {
		return nil, err
	}
	for range pages {
		b := make([]byte, pageBytes+page.TrailerBytes)
		_, _ = random.Read(b)
		l.pages = append(l.pages, b)
		l.copies = append(l.copies, make([]byte, len(b)))
	}
	l.sender, err = openStream(ctx, sender, pages, pageBytes)
	return l, err
}

// measure measures everything once. A warm-up is not recorded.
func (l *limits) measure(ctx context.Context, warmUp bool) error {
	var failed error
	for _, one := range []struct {
		speeds *[]float64
		run    func() error
	}{
		{&l.loopbackMBs, func() error { return l.sender.receive(ctx, l.copies) }},
		{&l.memcpyMBs, l.copy},
		{&l.checksumMBs, func() error { return l.seal(l.checksum) }},
		{&l.macMBs, func() error { return l.seal(l.mac) }},
	} {
		start := time.Now()
		if failed = one.run(); failed != nil {
			return failed
		}
		if !warmUp {
			*one.speeds = append(*one.speeds, mbs(l.bytes(), milliseconds(start)))
		}
	}
	return nil
}

func (l *limits) bytes() int64 {
	return int64(len(l.pages)) * int64(len(l.pages[0])-page.TrailerBytes)
}

func (l *limits) copy() error {
	for i, p := range l.pages {
		copy(l.copies[i], p)
	}
	return nil
}

func (l *limits) seal(s *page.Sealer) error {
	for _, p := range l.pages {
		if err := s.Seal(p, page.ID{}); err != nil {
			return err
		}
	}
	return nil
}

func (l *limits) results() results.Limit {
	return results.Limit{
		LoopbackTCPMBs: median(l.loopbackMBs),
		MemcpyMBs:      median(l.memcpyMBs),
		ChecksumMBs:    median(l.checksumMBs),
		MACMBs:         median(l.macMBs),
	}
}

func (l *limits) close() { l.sender.close() }
