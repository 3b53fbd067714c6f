package transfer

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

const described = `{"buffers":[{"addr":140099232727040,"length":536870912,"name":"h:1"}],"name":"h:1","protocol":"tcp",` +
	`"tcp_data_host":"10.0.0.7","tcp_data_port":16199,"tcp_proto_version":2}`

// metadataServer answers by raw query, and 404 to what it does not know.
func metadataServer(t *testing.T, answers map[string]string) Resolver {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.RawQuery]
		switch {
		case !ok:
			http.NotFound(w, r)
		case strings.HasPrefix(answer, "http"):
			http.Redirect(w, r, answer, http.StatusFound)
		default:
			_, _ = w.Write([]byte(answer))
		}
	}))
	t.Cleanup(server.Close)
	return HTTPMetadata(server.URL + "/metadata")
}

func TestHTTPMetadata(t *testing.T) {
	r := metadataServer(t, map[string]string{
		"key=mooncake%2Fram%2Fh%3A1":      described,
		"key=mooncake%2Fram%2Fh%3A2":      `{"protocol":"tcp","tcp_data_port":5,"buffers":[]}`,
		"key=mooncake%2Frpc_meta%2Fh%3A2": `{"ip_or_host_name":"10.0.0.8","rpc_port":9}`,
		"key=mooncake%2Fram%2Fh%3A6":      `{"protocol":"rdma,tcp","tcp_data_port":5,"tcp_data_host":"::1","tcp_proto_version":3}`,
	})
	for endpoint, want := range map[string]Target{
		"h:1": {Addr: "10.0.0.7:16199", Version: 2, Buffers: []Range{{140099232727040, 536870912}}},
		"h:2": {Addr: "10.0.0.8:5", Version: 1, Buffers: []Range{}},
		"h:6": {Addr: "[::1]:5", Version: 2},
	} {
		got, err := r.Resolve(testContext(t), endpoint)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", endpoint, got, err, want)
		}
	}
}

func TestHTTPMetadataFaults(t *testing.T) {
	r := metadataServer(t, map[string]string{
		"key=mooncake%2Fram%2Fgarbage":     "<html>",
		"key=mooncake%2Fram%2Fhuge":        strings.Repeat(" ", maxMetadataBytes) + described,
		"key=mooncake%2Fram%2Fhost":        `{"protocol":"tcp","tcp_data_port":5}`,
		"key=mooncake%2Fram%2Fnohost":      `{"protocol":"tcp","tcp_data_port":5}`,
		"key=mooncake%2Frpc_meta%2Fnohost": `{}`,
		"key=mooncake%2Fram%2Fport":        `{"protocol":"tcp","tcp_data_host":"h","tcp_data_port":65536}`,
		"key=mooncake%2Fram%2Frdma":        `{"protocol":"rdma","tcp_data_host":"h","tcp_data_port":1}`,
		"key=mooncake%2Fram%2Felsewhere":   "http://127.0.0.1:1/",
	})
	for _, endpoint := range []string{"unknown", "garbage", "huge", "host", "nohost", "port", "rdma", "elsewhere", "", "a&key=b"} {
		if got, err := r.Resolve(testContext(t), endpoint); !errors.Is(err, ErrResolve) {
			t.Errorf("%q: %+v, %v", endpoint, got, err)
		}
	}
	if _, err := HTTPMetadata("http://"+deadAddr(t)).Resolve(testContext(t), "h"); !errors.Is(err, ErrResolve) {
		t.Errorf("no server: %v", err)
	}
	if _, err := HTTPMetadata("::").Resolve(testContext(t), "h"); !errors.Is(err, ErrResolve) {
		t.Errorf("no URL: %v", err)
	}
}

func message(length uint64, kind byte, body string) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, length), kind), body...)
}

func TestP2PHandshakeFaults(t *testing.T) {
	for name, answer := range map[string][]byte{
		"nothing":        nil,
		"short length":   {1, 2, 3},
		"zero length":    message(0, 1, ""),
		"huge length":    message(1<<40, 1, described),
		"over the limit": message(maxMetadataBytes+1, 1, described),
		"other type":     message(uint64(len(described))+1, 0, described),
		"short body":     message(uint64(len(described))+2, 1, described),
		"empty body":     message(1, 1, ""),
		"garbage":        message(5, 1, "nope"),
	} {
		p := newPeer(t, func(_ int, c *net.TCPConn) {
			_, _ = c.Write(answer)
			_ = c.CloseWrite()
			untilClosed(c)
		})
		if got, err := P2PHandshake().Resolve(testContext(t), p.listener.Addr().String()); !errors.Is(err, ErrResolve) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, endpoint := range []string{"", "host", deadAddr(t)} {
		if _, err := P2PHandshake().Resolve(testContext(t), endpoint); !errors.Is(err, ErrResolve) {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

func TestResolvingObeysTheContext(t *testing.T) {
	p := newPeer(t, func(_ int, c *net.TCPConn) { untilClosed(c) })
	for name, r := range map[string]Resolver{
		"handshake": P2PHandshake(),
		"http":      HTTPMetadata("http://" + p.listener.Addr().String()),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := r.Resolve(ctx, p.listener.Addr().String())
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrResolve) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := cache{resolver: &targets{list: []Target{{Addr: "h:1", Version: 2}}}}
	for i := range 3 * cacheEntries {
		if _, err := c.resolve(t.Context(), string(rune(i))); err != nil {
			t.Fatal(err)
		}
		if _, err := c.resolve(t.Context(), string(rune(i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.mu.entries); n == 0 || n > cacheEntries {
		t.Errorf("%d entries", n)
	}
	if n := c.asked.Load(); n != 3*cacheEntries {
		t.Errorf("asked %d times", n)
	}
}
