package engine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// closing listens on a socket as an engine that takes one request a connection,
// as llama-server does after an answer that it streams: it does not say so, and
// closes the connection when another request has come.
func closing(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close() //nolint:errcheck // a test
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				in := bufio.NewReader(conn)
				request, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body)
				const content = `{"tokens":[1,2]}`
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(content), content)
				_, _ = in.ReadByte() // of the next request
			})
		}
	})
	return socket
}

// Neither what is forwarded nor a call fails because the engine has closed the
// connection of an earlier request.
func TestConnectionsThatTheEngineCloses(t *testing.T) {
	c := NewClient(closing(t), "", "")
	defer c.HTTP.CloseIdleConnections()
	proxy := httptest.NewServer(c.Forward(slog.New(slog.DiscardHandler)))
	defer proxy.Close()
	for i := range 5 {
		if tokens, err := c.Tokenize(t.Context(), "a text"); err != nil || len(tokens) != 2 {
			t.Errorf("call %d: %v, %v", i, tokens, err)
		}
		status, err := post(t.Context(), proxy.Client(), proxy.URL)
		if err != nil || status != http.StatusOK {
			t.Errorf("forwarded request %d: %d, %v", i, status, err)
		}
	}
}

func post(ctx context.Context, client *http.Client, url string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/completion", strings.NewReader(`{"prompt":"a"}`))
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // a test
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
