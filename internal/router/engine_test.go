package router

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ollamoon/internal/engine"
	"ollamoon/internal/standin"
	"ollamoon/internal/supervise"
	"ollamoon/internal/trust"
)

// roleVariable makes the test binary act as a stand-in for llama-server.
const roleVariable = "ROUTER_TEST_ROLE"

func playRole() {
	standin.Run(context.Background(), os.Args[0], os.Args[1:], os.Environ()).Now()
}

// realConfig is one for a router over real workers, which have its secret.
func realConfig(specs ...Spec) Config {
	c := NewConfig(Llama, specs...)
	c.Secret = trust.Secret("a secret of thirty-two characters")
	return c
}

// startReal starts a real llama-server with a small model behind a stand-in, which
// shares pages in a folder.
func startReal(t *testing.T, id, folder string, more ...string) (Spec, *supervise.Process) {
	t.Helper()
	programs, err := engine.Find()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ports, err := supervise.FreePorts(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	args := []string{"-m", programs.Model, "-ngl", "0", "-t", "1", "-c", "2048", "-np", "1", "--host", "127.0.0.1", "--port", fmt.Sprint(ports[0])}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, realConfig().Secret, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := supervise.Start(supervise.Command{
		Path: self, Args: append(args, more...),
		Env: []string{
			roleVariable + "=stand-in", "OLLAMOON_BINARY=" + programs.Binary, "OLLAMOON_STORE=file:" + folder,
			"OLLAMOON_SECRET_FILE=" + secret, "HOME=" + t.TempDir(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop(wait)
		if t.Failed() {
			t.Log(p.Tail())
		}
	})
	spec, err := ParseSpec(id + "=http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	prober := &prober{config: realConfig(), client: &http.Client{Transport: newTransport(realConfig())}}
	defer prober.client.CloseIdleConnections()
	err = p.Ready(ctx, 50*time.Millisecond, func(ctx context.Context) error {
		facts, err := prober.check(ctx, spec, true)
		if err == nil && !facts.shares() {
			err = errors.New("it does not share")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return spec, p
}

// A chat is a streamed answer to one message.
type chat struct {
	cancel context.CancelFunc
	body   io.ReadCloser
	lines  *bufio.Scanner
}

// chat begins to stream, and has read the first token.
func (f *front) chat(session, message string, tokens int) *chat {
	f.t.Helper()
	body, err := json.Marshal(map[string]any{
		"stream": true, "temperature": 0, "max_tokens": tokens, "ignore_eos": true,
		"messages": []map[string]string{{"role": "user", "content": message}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), wait)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.server.URL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set(sessionHeader, session)
	answer, err := f.client.Do(r) //nolint:bodyclose // chat.rest does
	if err != nil || answer.StatusCode != http.StatusOK {
		f.t.Fatal(answer, err)
	}
	c := &chat{cancel: cancel, body: answer.Body, lines: bufio.NewScanner(answer.Body)}
	if !c.lines.Scan() || !strings.HasPrefix(c.lines.Text(), "data: {") {
		f.t.Fatal(c.lines.Text(), c.lines.Err())
	}
	return c
}

// rest reads a stream to its end, and returns its text, its errors, and how often
// it said that it is done.
func (c *chat) rest(t *testing.T) (text string, failures []string, done int) {
	t.Helper()
	defer c.cancel()
	defer c.body.Close()
	for c.lines.Scan() {
		data, ok := strings.CutPrefix(c.lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done++
			continue
		}
		var event struct {
			Choices []struct{ Delta struct{ Content string } }
			Error   *struct{ Message string }
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Errorf("%q: %v", data, err)
		}
		for _, choice := range event.Choices {
			text += choice.Delta.Content
		}
		if event.Error != nil {
			failures = append(failures, event.Error.Message)
		}
	}
	if err := c.lines.Err(); err != nil {
		t.Error("the stream does not end properly:", err)
	}
	return text, failures, done
}

// on returns which worker runs something.
func (f *front) on() []string {
	var ids []string
	for _, w := range f.router.fleet.status().Workers {
		if w.Running > 0 {
			ids = append(ids, w.ID)
		}
	}
	return ids
}

// Two real engines that share pages, behind a router: requests at once are spread,
// one of the engines is killed in the middle of a stream, the router ends while
// another runs, and an engine of another namespace is not let in.
func TestRealEngines(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "pages")
	specs, processes := make([]Spec, 2), make([]*supervise.Process, 2)
	var started sync.WaitGroup
	for i, id := range []string{"a", "b"} {
		started.Go(func() { specs[i], processes[i] = startReal(t, id, folder) })
	}
	started.Wait()
	if t.Failed() {
		return
	}
	c := realConfig(specs...)
	c.Interval = 100 * time.Millisecond
	f := newFront(t, c)

	message := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 60) + "What does the fox do?"
	first := f.chat("1", message, 400)
	firstOn := f.on()[0]
	second := f.chat("2", "Count to ten.", 400)
	if on := f.on(); len(on) != 2 {
		t.Fatal("two requests at once run on", on)
	}
	third := make(chan *chat)
	go func() { third <- f.chat("3", "Name a fruit.", 4) }()
	eventually(t, "the third waits", func() bool { return f.router.fleet.status().Queue.Waiting == 1 })

	victim := slices.IndexFunc(specs, func(s Spec) bool { return s.ID == firstOn })
	processes[victim].Kill()
	text, failures, done := first.rest(t)
	if text == "" || len(failures) != 1 || failures[0] != errBroken.Error() || done != 1 {
		t.Errorf("%q, %q, done %d times", text, failures, done)
	}
	f.state(specs[victim].ID, stateEjected)
	for _, stream := range []*chat{second, <-third} {
		if text, failures, done := stream.rest(t); text == "" || len(failures) != 0 || done != 1 {
			t.Errorf("the other worker: %q, %q, done %d times", text, failures, done)
		}
	}
	again := f.chat("1", message, 16)
	whole, failures, done := again.rest(t)
	if len(failures) != 0 || done != 1 || !strings.HasPrefix(text, whole[:min(len(whole), len(text))]) {
		t.Errorf("the next request: %q, %q, done %d times; the first began %q", whole, failures, done, text)
	}
	f.idle()
	f.ends(specs[1-victim])

	t.Run("another secret", func(t *testing.T) {
		c := realConfig(specs[1-victim])
		c.Secret = trust.Secret("another secret of many characters")
		if rt, err := New(t.Context(), c); !errors.Is(err, ErrMismatch) {
			t.Error(err)
			if err == nil {
				rt.Close()
			}
		}
	})
	t.Run("another namespace", func(t *testing.T) {
		other, _ := startReal(t, "c", folder, "-ctk", "q8_0", "-fa", "on")
		if rt, err := New(t.Context(), realConfig(specs[1-victim], other)); !errors.Is(err, ErrMismatch) {
			t.Error(err)
			if err == nil {
				rt.Close()
			}
		}
	})
}

// ends lets a router over one worker end while a stream runs, which is finished.
func (f *front) ends(s Spec) {
	f.t.Helper()
	l, err := new(net.ListenConfig).Listen(f.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	other := &front{t: f.t, client: f.client, server: f.server}
	url := f.server.URL
	defer func() { f.server.URL = url }()
	f.server.URL = "http://" + l.Addr().String()
	if other.router, err = New(f.t.Context(), realConfig(s)); err != nil {
		f.t.Fatal(err)
	}
	ctx, end := cancelable(f.t)
	served := make(chan error, 1)
	go func() { served <- other.router.Serve(ctx, l, wait) }()
	stream := other.chat("last", "Count to ten.", 64)
	end()
	if text, failures, done := stream.rest(f.t); text == "" || len(failures) != 0 || done != 1 {
		f.t.Errorf("at the router's end: %q, %q, done %d times", text, failures, done)
	}
	if err := <-served; err != nil {
		f.t.Error(err)
	}
}
