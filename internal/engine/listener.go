package engine

import (
	"bufio"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

// A Listener is where and how a llama-server is asked to serve.
type Listener struct {
	Host, Port      string // a Host that ends in ".sock" is a socket's path
	ReusePort       bool
	Prefix          string
	TLSKey, TLSCert string
	APIKeys         []string
}

// Listener returns where and how these arguments ask to be served. An error
// says which file cannot be read.
func (a Arguments) Listener() (Listener, error) {
	l := Listener{Host: "127.0.0.1", Port: "8080", ReusePort: a.has(optReusePort)}
	for _, f := range []struct {
		option
		to *string
	}{{optHost, &l.Host}, {optPort, &l.Port}, {optPrefix, &l.Prefix}, {optTLSKey, &l.TLSKey}, {optTLSCert, &l.TLSCert}} {
		if v, ok := a.value(f.option); ok {
			*f.to = v
		}
	}
	for _, v := range a.values(optAPIKey) {
		for key := range strings.SplitSeq(v, ",") {
			if key = strings.TrimSpace(key); key != "" {
				l.APIKeys = append(l.APIKeys, key)
			}
		}
	}
	if path, ok := a.value(optKeyFile); ok {
		file, err := os.Open(path) //nolint:gosec // the user names the file
		if err != nil {
			return Listener{}, fmt.Errorf("reading API keys: %w", err)
		}
		defer file.Close() //nolint:errcheck // read only
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
				l.APIKeys = append(l.APIKeys, line)
			}
		}
		if err := lines.Err(); err != nil {
			return Listener{}, fmt.Errorf("reading API keys: %w", err)
		}
	}
	return l, nil
}

// Socket reports whether the Host is the path of a socket.
func (l Listener) Socket() bool { return strings.HasSuffix(l.Host, ".sock") }

// URL names an address as the engine's log does; the port is that which was
// given when none was asked for.
func (l Listener) URL(port string) string {
	switch {
	case l.Socket():
		return "unix://" + l.Host
	case l.TLS():
		return "https://" + l.Host + ":" + port
	}
	return "http://" + l.Host + ":" + port
}

// TLS reports whether connections are to be encrypted.
func (l Listener) TLS() bool { return l.TLSKey != "" && l.TLSCert != "" }

// Network returns the network and the address to listen at.
func (l Listener) Network() (network, address string) {
	if l.Socket() {
		return "unix", l.Host
	}
	network = "tcp"
	if ip := net.ParseIP(l.Host); ip != nil && ip.To4() != nil {
		network = "tcp4" // or else 0.0.0.0 would stand for IPv6 too
	}
	return network, net.JoinHostPort(l.Host, l.Port)
}

// Authorized reports whether the engine would accept a request's key.
func (l Listener) Authorized(r *http.Request) bool {
	if len(l.APIKeys) == 0 {
		return true
	}
	key := r.Header.Get("Authorization")
	if key == "" {
		key = r.Header.Get("X-Api-Key")
	}
	key = strings.TrimPrefix(key, "Bearer ")
	ok := 0
	for _, k := range l.APIKeys {
		ok |= subtle.ConstantTimeCompare([]byte(k), []byte(key))
	}
	return ok == 1
}
