//go:build linux

package netlab

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/supervise"
)

func TestMain(m *testing.M) {
	Main(func() {
		switch role, to, _ := strings.Cut(os.Getenv(roleVariable), " "); role {
		case "server":
			playServer()
		case "relay":
			playRelay(to)
		}
		goleak.VerifyTestMain(m)
	})
}

// wait bounds what a test waits for.
const wait = 90 * time.Second

// roleVariable makes the test binary a server that sends zeros, or a relay.
const (
	roleVariable = "NETLAB_TEST_ROLE"
	serverPort   = "7000"
	served       = 16 << 20 // bytes
)

func playServer() {
	l, err := net.Listen("tcp4", ":"+serverPort) //nolint:noctx,gosec // on a machine of the lab
	if err != nil {
		fail(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			fail(err)
		}
		go func() {
			_, _ = c.Write(make([]byte, served)) // the client takes what it likes
			_ = c.Close()
		}()
	}
}

// distance is how much later a relay passes on what comes.
const distance = 10 * time.Millisecond

func playRelay(to string) {
	if _, err := NewRelay(context.Background(), ":"+serverPort, to, distance); err != nil {
		fail(err)
	}
	select {} // until it is killed
}

func newLab(t *testing.T, names ...string) (*Lab, []*Machine) {
	t.Helper()
	lab, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	machines := make([]*Machine, len(names))
	for i, name := range names {
		if machines[i], err = lab.Machine(name); err != nil {
			t.Fatal(err)
		}
	}
	return lab, machines
}

// start starts a command on a machine.
func start(t *testing.T, m *Machine, c supervise.Command) *supervise.Process {
	t.Helper()
	p, err := supervise.Start(m.Command(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop(10 * time.Second)
		if t.Failed() {
			t.Logf("%s, %s:\n%s", m.Name, c.Path, p.Tail())
		}
	})
	return p
}

// take returns how long so many bytes take to come from a machine.
func take(t *testing.T, m *Machine, n int64) time.Duration {
	t.Helper()
	var c net.Conn
	var err error
	for end := time.Now().Add(wait); ; time.Sleep(10 * time.Millisecond) {
		if c, err = net.DialTimeout("tcp4", net.JoinHostPort(m.Address.String(), serverPort), wait); err == nil { //nolint:noctx // bounded
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	defer c.Close() //nolint:errcheck // a test
	begin := time.Now()
	if err := c.SetDeadline(begin.Add(wait)); err != nil {
		t.Fatal(err)
	}
	if got, err := io.CopyN(io.Discard, c, n); err != nil {
		t.Fatalf("%d bytes of %d: %v", got, n, err)
	}
	return time.Since(begin)
}

// A link has the rate that it is given, and machines that are cut off from each
// other are silent.
func TestLinks(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, machines := newLab(t, "a", "b")
	a, b := machines[0], machines[1]
	start(t, a, supervise.Command{Path: self, Env: []string{roleVariable + "=server"}})
	take(t, a, 1) // it is there
	for rate, bytes := range map[uint64]int64{Gbit: served, 20 * Mbit: 1 << 20} {
		if err := a.Shape(rate); err != nil {
			t.Fatal(err)
		}
		least := time.Duration(float64(bytes-2*burst) * 8 / float64(rate) * float64(time.Second))
		if took := take(t, a, bytes); took < least || took > least+wait/4 {
			t.Errorf("%d bytes over %d bit/s take %v, less than %v or very much longer", bytes, rate, took, least)
		}
	}
	reach := "exec 3<>/dev/tcp/" + a.Address.String() + "/" + serverPort
	for _, step := range []struct {
		name    string
		do      func() error
		reaches bool
	}{
		{"joined", func() error { return nil }, true},
		{"cut", func() error { return b.Cut(a) }, false},
		{"mended", func() error { return b.Mend(a) }, true},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		p := start(t, b, supervise.Command{Path: "/bin/bash", Args: []string{"-c", reach}})
		select {
		case <-p.Done():
			var failed *exec.ExitError
			if errors.As(p.Err(), &failed) == step.reaches || !step.reaches {
				t.Errorf("%s: %v %s", step.name, p.Err(), p.Tail())
			}
		case <-time.After(map[bool]time.Duration{true: wait, false: time.Second}[step.reaches]):
			if step.reaches {
				t.Errorf("%s: no answer", step.name)
			}
		}
	}
}

// A relay passes on what comes, later, and ends its connections with itself.
func TestRelay(t *testing.T) {
	_, machines := newLab(t, "a")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start(t, machines[0], supervise.Command{Path: self, Env: []string{roleVariable + "=server"}})
	take(t, machines[0], 1) // it is there
	const delay = 300 * time.Millisecond
	relay, err := NewRelay(t.Context(), "127.0.0.1:0", net.JoinHostPort(machines[0].Address.String(), serverPort), delay)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp4", relay.Address()) //nolint:noctx // in this process
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // a test
	begin := time.Now()
	if n, err := io.Copy(io.Discard, c); n != served || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if took := time.Since(begin); took < delay || took > delay+wait/4 {
		t.Errorf("after %v", took)
	}
	open, err := net.Dial("tcp4", relay.Address()) //nolint:noctx // in this process
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close() //nolint:errcheck // a test
	relay.Close()
	if _, err := io.Copy(io.Discard, open); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// What cannot be run on a machine says what it was.
func TestNoSuchProgram(t *testing.T) {
	_, machines := newLab(t, "a")
	p := start(t, machines[0], supervise.Command{Path: "/no/such/program"})
	<-p.Done()
	if want := "netlab: running /no/such/program: no such file or directory\n"; p.Tail() != want {
		t.Errorf("%q", p.Tail())
	}
}
