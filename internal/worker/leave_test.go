package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ollamoon/connector"
	"ollamoon/prefix"
	"ollamoon/store"
)

// full reports whether the long tests are asked for.
func full() bool { return os.Getenv("OLLAMOON_FULL") == "1" }

// times is how often a test does what it repeats.
func times(ci, inFull int) int {
	if full() {
		return inFull
	}
	return ci
}

// A lender counts the buffers that a store has lent and not got back.
type lender struct {
	store.Store
	out atomic.Int64
}

func (l *lender) Alloc(size int) (store.Buffer, error) {
	b, err := l.Store.Alloc(size)
	if err != nil {
		return nil, err
	}
	l.out.Add(1)
	return &lent{Buffer: b, lender: l}, nil
}

type lent struct {
	store.Buffer
	lender *lender
	once   sync.Once
}

func (b *lent) Free() {
	b.once.Do(func() { b.lender.out.Add(-1) })
	b.Buffer.Free()
}

// outside is a connector to what a worker shares, with nothing of the worker's.
func outside(t *testing.T, s *Sharing) *connector.Connector {
	t.Helper()
	c, err := connector.New(s.Store, connector.Config{
		Keys: prefix.Config{Model: s.Namespace.Model(), PageTokens: PageTokens}, Sealer: s.Sealer,
		PageBytes: s.Shape.Sections[0].PageBytes(PageTokens),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pagesOf returns how many pages of a prompt are in the store, each of them with
// a good seal.
func pagesOf(t *testing.T, c *connector.Connector, tokens []int32) int {
	t.Helper()
	buffers := make([][]byte, len(tokens)/PageTokens)
	for i := range buffers {
		buffers[i] = make([]byte, c.ObjectBytes())
	}
	match, err := c.LoadCachedPrefix(t.Context(), tokens, buffers)
	if err != nil {
		t.Fatal(err)
	}
	if rejected := c.Stats().Rejected; len(rejected) > 0 {
		t.Errorf("bad pages are in the store: %v", rejected)
	}
	return match.Pages
}

// A departure is a client that goes away.
type departure struct {
	read  atomic.Int64 // bytes of the answer
	ended chan struct{}
	err   error
}

// leave sends a request and goes away as soon as the cue says so. It reports
// whether the answer was not over by then.
func (r *running) leave(body map[string]any, cue func(d *departure) bool) bool {
	r.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/completion", bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	d := &departure{ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			d.err = err
			return
		}
		defer response.Body.Close()
		_, d.err = io.Copy(writerFunc(func(p []byte) (int, error) {
			d.read.Add(int64(len(p)))
			return len(p), nil
		}), response.Body)
	}()
	for !cue(d) {
		select {
		case <-d.ended:
			return false
		case <-time.After(100 * time.Microsecond):
		}
	}
	cancel()
	<-d.ended
	return d.err != nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// after is a cue at a random time.
func after(most time.Duration) func(*departure) bool {
	at := time.Now().Add(rand.N(most)) //nolint:gosec // any times do
	return func(*departure) bool { return time.Now().After(at) }
}

// atFile is a cue when a slot file is there.
func (r *running) atFile(*departure) bool { return len(r.slotFiles()) > 0 }

func (r *running) slotFiles() (names []string) {
	r.t.Helper()
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "ollamoon-") {
			names = append(names, e.Name())
		}
	}
	return names
}

// busy is how many of the engine's slots work.
func (r *running) busy() int {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://engine/slots", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := r.engine.HTTP.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	var slots []struct {
		Works bool `json:"is_processing"`
	}
	if err := json.NewDecoder(response.Body).Decode(&slots); err != nil {
		r.t.Fatal(err)
	}
	n := 0
	for _, s := range slots {
		if s.Works {
			n++
		}
	}
	return n
}

// children is how many processes this one has.
func children(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, task := range tasks {
		data, err := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		if err == nil {
			n += len(strings.Fields(string(data)))
		}
	}
	return n
}
