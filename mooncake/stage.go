package mooncake

import (
	"context"
	"sync"

	"ollamoon/mooncake/shm"
)

const (
	// stageBytes is the memory that copies go through.
	stageBytes = 32 << 20
	// stageShare is what one group of objects may have of it.
	stageShare = stageBytes / 2
)

// A stage is the shared memory through which objects go whose buffers are not
// shared. It keeps buffers for the next objects of the same sizes, and has never
// more than stageBytes.
type stage struct {
	session *shm.Session
	turns   chan struct{} // one for each group that uses the stage

	mu struct {
		sync.Mutex
		closed bool
		held   int64                 // bytes of all buffers, in whole pages
		kept   map[int][]*shm.Buffer // that are not in use, by size
	}
}

func newStage(session *shm.Session) *stage {
	s := &stage{session: session, turns: make(chan struct{}, stageBytes/stageShare)}
	s.mu.kept = map[int][]*shm.Buffer{}
	return s
}

// take returns buffers of these sizes, which are no more than stageShare together.
// It waits for its turn.
func (s *stage) take(ctx context.Context, sizes []int) ([]*shm.Buffer, error) {
	select {
	case s.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	buffers := make([]*shm.Buffer, 0, len(sizes))
	for _, size := range sizes {
		b, err := s.one(size)
		if err != nil {
			s.give(buffers, false)
			return nil, err
		}
		buffers = append(buffers, b)
	}
	return buffers, nil
}

func (s *stage) one(size int) (*shm.Buffer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept := s.mu.kept[size]; len(kept) > 0 {
		s.mu.kept[size] = kept[:len(kept)-1]
		return kept[len(kept)-1], nil
	}
	if s.mu.held+wholePages(size) > stageBytes {
		s.empty()
	}
	b, err := s.session.Alloc(size)
	if err == nil {
		s.mu.held += wholePages(size)
	}
	return b, err
}

// give ends a turn. Buffers whose call did not end well are not used again.
func (s *stage) give(buffers []*shm.Buffer, good bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range buffers {
		size := len(b.Bytes())
		if good && !s.mu.closed {
			s.mu.kept[size] = append(s.mu.kept[size], b)
			continue
		}
		s.mu.held -= wholePages(size)
		b.Free()
	}
	<-s.turns
}

// empty frees what is kept. The caller holds mu.
func (s *stage) empty() {
	for size, buffers := range s.mu.kept {
		for _, b := range buffers {
			s.mu.held -= wholePages(size)
			b.Free()
		}
	}
	clear(s.mu.kept)
}

// close frees what is kept. What is in use is freed when its turn ends.
func (s *stage) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	s.empty()
}
