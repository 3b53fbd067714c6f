package bench

import (
	"net"
	"runtime"
	"testing"
)

func TestResident(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Logf("no figures are expected on %s", runtime.GOOS)
		return
	}
	before, _, err := resident()
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	b := make([]byte, size)
	for i := range b {
		b[i] = 1
	}
	now, peak, err := resident()
	if err != nil || now < before+size/2 || peak < now-size/2 {
		t.Errorf("resident %d, then with %d more %d, at most %d; %v", before, size, now, peak, err)
	}
	runtime.KeepAlive(b)
}

func TestLoopbackBytes(t *testing.T) {
	before, err := loopbackBytes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0") //nolint:noctx // ends at once
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // a test's
	const packets, size = 10, 1000
	for range packets {
		if _, err := conn.WriteTo(make([]byte, size), conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		if _, _, err := conn.ReadFrom(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	after, err := loopbackBytes(t.Context())
	if err != nil || after-before < packets*size {
		t.Errorf("loopback carried %d bytes, at least %d were sent; %v", after-before, packets*size, err)
	}
}
