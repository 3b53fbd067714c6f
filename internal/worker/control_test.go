package worker

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"ollamoon/internal/engine"
)

// What a client does to a slot by itself is followed: an erased one is empty, and
// of one that was restored, or of which it is not known, nothing is known.
func TestSlotActionsOfClients(t *testing.T) {
	var status atomic.Int64
	fake := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		code := int(status.Load())
		if code == 0 {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(code)
	}))
	socket := filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	_ = fake.Listener.Close() // one that is not used
	fake.Listener = l
	fake.Start()
	defer fake.Close()
	client := engine.NewClient(socket, "", "")
	defer client.HTTP.CloseIdleConnections()
	w, err := New(Config{Engine: client, Slots: 1, Context: 1024, UBatch: 512, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, c := range []struct {
		action  string
		status  int
		tokens  int
		unknown bool
	}{
		{"erase", http.StatusOK, 0, false},
		{"erase", http.StatusNotImplemented, 0, true},
		{"erase", 0, 0, true},
		{"restore", http.StatusOK, 0, true},
		{"restore", 0, 0, true},
		{"save", http.StatusOK, 3, false},
	} {
		status.Store(int64(c.status))
		held := w.queue.slots[0]
		held.hold([]int32{1, 2, 3}, 3)
		func() {
			defer func() { _ = recover() }() // an answer that breaks off
			w.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/slots/0?action="+c.action, nil))
		}()
		if len(held.tokens) != c.tokens || held.unknown != c.unknown {
			t.Errorf("after %s with status %d: %d tokens, unknown %v", c.action, c.status, len(held.tokens), held.unknown)
		}
		if w.queue.idle() != 1 {
			t.Errorf("after %s with status %d the slot is not free", c.action, c.status)
		}
	}
}
