package transfer

import (
	"bytes"
	"net"
	"testing"
	"time"
)

func FuzzDecodeSegment(f *testing.F) {
	f.Add([]byte(described), "h")
	f.Add([]byte(`{"protocol":"tcp","tcp_data_port":-1}`), "[::1]")
	f.Fuzz(func(t *testing.T, data []byte, host string) {
		s, err := decodeSegment(data)
		if err != nil {
			return
		}
		target, err := s.target(host)
		if err != nil {
			return
		}
		if _, _, err := net.SplitHostPort(target.Addr); err != nil && !bytes.ContainsAny([]byte(target.Addr), "[]") {
			t.Errorf("address %q: %v", target.Addr, err)
		}
		if target.Version != 1 && target.Version != 2 {
			t.Errorf("version %d", target.Version)
		}
		target.holds(0, 1)
		target.holds(^uint64(0), 1<<30)
	})
}

func FuzzReadMessage(f *testing.F) {
	f.Add(message(uint64(len(described))+1, 1, described))
	f.Add(message(1<<63, 1, ""))
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := readMessage(bytes.NewReader(data))
		if err == nil && !bytes.Equal(data[9:9+len(body)], body) {
			t.Errorf("a body of other bytes")
		}
	})
}

// answered is a connection on which everything can be sent and whose answer
// was made before.
type answered struct {
	net.Conn
	*bytes.Reader
}

func (a answered) Read(p []byte) (int, error)     { return a.Reader.Read(p) }
func (answered) Write(p []byte) (int, error)      { return len(p), nil }
func (answered) SetDeadline(time.Time) error      { return nil }
func (answered) SetReadDeadline(time.Time) error  { return nil }
func (answered) SetWriteDeadline(time.Time) error { return nil }

// Whatever a peer answers, a read succeeds only with the right status and
// exactly its bytes, and a write only with the right status or fence.
func FuzzAnswers(f *testing.F) {
	f.Add(append(status(statusOK), "0123456789"...), 10)
	f.Add(status(statusRejected), 1)
	f.Fuzz(func(t *testing.T, answer []byte, size int) {
		if size <= 0 || size > 1<<12 {
			return
		}
		for version := 1; version <= 2; version++ {
			open := func() *conn {
				return newConn(answered{Reader: bytes.NewReader(answer)}, Target{Version: version}, time.Second)
			}
			head := statusBytes * (version - 1)
			good := len(answer) >= head && bytes.Equal(answer[:head], status(statusOK)[:head])
			dst := make([]byte, size)
			err := open().read(1, dst, nil)
			if (err == nil) != (good && len(answer)-head >= size) {
				t.Errorf("version %d: a read of %d bytes from %x: %v", version, size, answer, err)
			}
			if err == nil && !bytes.Equal(dst, answer[head:head+size]) {
				t.Errorf("version %d: other bytes", version)
			}
			err = open().write(1, dst)
			if version == 2 && (err == nil) != good || version == 1 && err == nil && answer[0] != dst[size-1] {
				t.Errorf("version %d: a write answered by %x: %v", version, answer, err)
			}
		}
	})
}
