package worker

import "sync"

// inflight holds which pages are being computed at the moment, so that two
// requests for the same prefix compute it once.
type inflight struct {
	mu struct {
		sync.Mutex
		pages map[string]chan struct{}
	}
}

// claim claims a page by its key, until release is called. If someone else has
// it, release is nil, and other is closed when they are done with it.
func (f *inflight) claim(key string) (release func(), other <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.mu.pages[key]; ok {
		return nil, c
	}
	if f.mu.pages == nil {
		f.mu.pages = map[string]chan struct{}{}
	}
	c := make(chan struct{})
	f.mu.pages[key] = c
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.mu.pages, key)
		close(c)
	}, nil
}
