package shm

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"ollamoon/mooncake/structpack"
)

// impostor listens under the name of a mooncake_client and runs a script on each
// connection. It is for faults only.
func impostor(t *testing.T, port string, run func(net.Conn)) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", "@@mooncake_client_"+port+".sock")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			run(c)
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		served.Wait()
	})
}

// freePort is a TCP port at which nothing listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func TestHandshakeFaults(t *testing.T) {
	registration := func(c net.Conn) bool {
		n, err := io.ReadFull(c, make([]byte, 4+requestBytes))
		return n == 4+requestBytes && err == nil
	}
	answers := func(b ...byte) func(net.Conn) {
		return func(c net.Conn) {
			if registration(c) {
				_, _ = c.Write(b)
			}
		}
	}
	for name, run := range map[string]func(net.Conn){
		"closes at once":         func(net.Conn) {},
		"closes before answer":   answers(),
		"short answer":           answers(0, 0),
		"refusal":                answers(255, 255, 255, 255),
		"no RPC behind the port": answers(0, 0, 0, 0),
		"silence":                func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
	} {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			impostor(t, port, run)
			_, err := Open(within(t, 20*time.Second), Options{
				Addr:        "127.0.0.1:" + port,
				OpenTimeout: 300 * time.Millisecond,
				ConfigType:  structpack.Bool,
				WriteConfig: func(w *structpack.Writer) { w.Bool(true) },
			})
			if !errors.Is(err, ErrUnavailable) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestOpenObeysItsContext(t *testing.T) {
	port := freePort(t)
	impostor(t, port, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, Options{
		Addr:        "127.0.0.1:" + port,
		OpenTimeout: 20 * time.Second,
		ConfigType:  structpack.Bool,
		WriteConfig: func(w *structpack.Writer) { w.Bool(true) },
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
