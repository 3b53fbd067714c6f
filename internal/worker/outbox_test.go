package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/engine/enginetest"
)

// kernelBytes is more than the system keeps of an answer that nobody reads.
const kernelBytes = 5 << 20

// A reader is a client that reads when it wants to.
type reader struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// opened sends a request of which nothing is read yet.
func opened(t *testing.T, url, path, body string) *reader {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: worker\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body); err != nil {
		t.Fatal(err)
	}
	return &reader{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// rest reads the answer.
func (r *reader) rest() ([]byte, error) { return r.slowly(0) }

// slowly reads the answer, at first so many bytes a second, for four seconds.
func (r *reader) slowly(rate int64) ([]byte, error) {
	r.t.Helper()
	response, err := http.ReadResponse(r.in, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	var answer bytes.Buffer
	for range 40 {
		if rate == 0 {
			break
		}
		if _, err := io.CopyN(&answer, response.Body, rate/10); err != nil {
			return answer.Bytes(), err
		}
		time.Sleep(100 * time.Millisecond)
	}
	_, err = io.Copy(&answer, response.Body)
	return answer.Bytes(), err
}

// The one slot of an engine is free when an answer is computed, though its client
// has read nothing of it. It gets all of it when it reads.
func TestASlowReaderHoldsNoSlot(t *testing.T) {
	const tokens = 120
	r := start(t, newStore(t), nil, "-m", enginetest.Small(t), "-c", "2048", "-np", "1", "--cache-ram", "0")
	body, err := json.Marshal(map[string]any{
		"prompt": r.tokens("slow", 350), "n_predict": tokens, "temperature": 0, "n_probs": 600, "stream": true, "ignore_eos": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	slow := opened(t, r.url, "/completion", string(body))
	for end := time.Now().Add(patience); r.worker.Status().Free == 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not served")
		}
	}
	if got := r.ask(greedy("one two")); got.Timings.PromptTokens == 0 {
		t.Errorf("the next request: %s", got.raw)
	}
	answer, err := slow.rest()
	if events := bytes.Count(answer, []byte("data: {")); err != nil || len(answer) < kernelBytes || events < tokens || !bytes.Contains(answer, []byte(`"stop":true`)) {
		t.Errorf("the slow reader gets %d bytes, %d events, and %v", len(answer), events, err)
	}
	if s := r.worker.Status(); s.Free != 1 || len(r.stored(r.tokens("slow", 350))) != 1 {
		t.Errorf("status %+v", s)
	}
}

// What an answer may be ahead of its client is bounded: one that goes on reading,
// however slowly, gets all, one that takes nothing is given up.
func TestWhatIsUnreadIsBounded(t *testing.T) {
	piece := bytes.Repeat([]byte("x"), 1<<20)
	const stall = 2 * time.Second
	const pieces = 3 * maxUnread / (1 << 20)
	most := 0
	ended := make(chan error, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := newOutbox(r.Context(), w, stall)
		defer o.drain()
		var err error
		for range pieces {
			if _, err = o.Write(piece); err != nil {
				break
			}
			o.mu.Lock()
			most = max(most, o.mu.unread)
			o.mu.Unlock()
		}
		ended <- err
	}))
	server.Config.ConnContext = ConnContext
	server.Start()
	defer server.Close()

	reads := opened(t, server.URL, "/", "")
	if answer, err := reads.slowly(400 << 10); err != nil || len(answer) != pieces*len(piece) {
		t.Errorf("%d bytes, %v", len(answer), err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	reads.conn.Close() //nolint:errcheck // it has read all
	stalls := opened(t, server.URL, "/", "")
	if err := <-ended; err == nil {
		t.Error("one that takes nothing gets everything")
	}
	if answer, err := stalls.rest(); err == nil {
		t.Errorf("%d bytes look like a whole answer", len(answer))
	}
	if most > maxUnread+len(piece) {
		t.Errorf("%d bytes are unread", most)
	}

	leaves := opened(t, server.URL, "/", "")
	left := time.Now()
	leaves.conn.Close() //nolint:errcheck // that is the test
	if err := <-ended; err == nil || time.Since(left) > stall/2 {
		t.Errorf("one that leaves is noticed after %v: %v", time.Since(left), err)
	}
}
