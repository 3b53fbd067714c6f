package routing

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// holdHeader asks the worker to leave the stream open after its first event.
const holdHeader = "X-Hold"

// slots are more than any measurement needs.
const slots = 1 << 16

// Work is a worker's process: it serves at a loopback port until ctx is done.
func Work(ctx context.Context, port int) error {
	debug.SetGCPercent(1000) // a worker that takes no time holds little
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("starting the worker: %w", err)
	}
	server := &http.Server{Handler: worker{}, ReadHeaderTimeout: time.Minute}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(l) }) // until it is closed
	<-ctx.Done()
	err = server.Close()
	served.Wait()
	return err
}

// A worker answers as a llama-server does that takes no time.
type worker struct{}

func (worker) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
		_, _ = io.WriteString(rw, `{"status":"ok"}`)
	case "/props":
		_, _ = fmt.Fprintf(rw, `{"total_slots":%d}`, slots)
	case "/v1/models":
		_, _ = io.WriteString(rw, `{"data":[{"id":"model"}]}`)
	case completions:
		stream(rw, r)
	default:
		http.NotFound(rw, r)
	}
}

const event = `data: {"choices":[{"index":0,"delta":{"content":"token"}}]}` + "\n\n"

func stream(rw http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what the client sends does not matter
	rw.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(rw, event)
	_ = http.NewResponseController(rw).Flush()
	if r.Header.Get(holdHeader) != "" {
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(rw, "data: [DONE]\n\n")
}

const completions = "/v1/chat/completions"

// words of a prompt come from a text of so many bytes a token.
const bytesPerToken = 4

// prompt is a conversation's request of about so many tokens; each number is
// another conversation, and all begin alike.
func prompt(number, tokens int) string {
	n := tokens * bytesPerToken / 2
	system := strings.Repeat("You are a helpful assistant. ", n/29+1)[:n]
	user := strings.Repeat(fmt.Sprintf("This is question %d. ", number), n/19+1)[:n]
	return `{"model":"model","stream":true,"messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":"` + user + `"}]}`
}
