package standin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"ollamoon/internal/engine"
)

// listen takes the public address, in the place of the engine. The socket stays
// where it is when the listener closes, as the engine's does.
func listen(ctx context.Context, l engine.Listener) (net.Listener, error) {
	var encryption *tls.Config
	if l.TLS() {
		certificate, err := tls.LoadX509KeyPair(l.TLSCert, l.TLSKey)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate: %w", err)
		}
		encryption = &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	config := net.ListenConfig{}
	if l.ReusePort {
		config.Control = reusePort
	}
	network, address := l.Network()
	listener, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if socket, ok := listener.(*net.UnixListener); ok {
		socket.SetUnlinkOnClose(false)
	}
	if encryption != nil {
		listener = tls.NewListener(listener, encryption)
	}
	return listener, nil
}

// reusePort lets several processes share the port.
func reusePort(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err != nil {
		return err
	}
	return failed
}

// publicURL is where a listener is reached, in the words of the engine's log.
func publicURL(l engine.Listener, listener net.Listener) string {
	port := l.Port
	if a, ok := listener.Addr().(*net.TCPAddr); ok {
		port = strconv.Itoa(a.Port)
	}
	return l.URL(port)
}
