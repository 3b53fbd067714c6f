package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// roleVariable makes the test binary act as another program.
const roleVariable = "SUPERVISE_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "listener":
		playListener()
	case "parent":
		playParent()
	case "watched":
		playWatched()
	}
}

// playListener listens in each way a program can and prints the addresses.
func playListener() {
	for _, where := range [][2]string{
		{"tcp4", "0.0.0.0:0"},
		{"tcp", ":0"}, // dual stack
		{"tcp4", "127.0.0.1:0"},
		{"tcp4", "127.0.0.2:0"},
	} {
		l, err := net.Listen(where[0], where[1]) //nolint:noctx // lasts as long as the process
		if err != nil {
			fmt.Println("failed", err)
			continue
		}
		fmt.Println("listening", l.Addr())
	}
	fmt.Println("all")
	time.Sleep(time.Minute)
}

// playParent starts a child, prints its process id, and waits to be killed.
func playParent() {
	p, err := Start(Command{Path: "/bin/sleep", Args: []string{"60"}, Loopback: true})
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	fmt.Println(p.PID())
	<-p.Done()
}

// playWatched starts a child that the kernel does not end with it, has it
// watched, prints its process id, and waits to be killed.
func playWatched() {
	child := exec.Command("/bin/sleep", "60") //nolint:noctx // it is to be killed
	if err := child.Start(); err != nil {
		fmt.Println("failed", err)
		return
	}
	if _, err := watch(child.Process.Pid); err != nil {
		fmt.Println("failed", err)
		return
	}
	fmt.Println(child.Process.Pid)
	_ = child.Wait()
}

func startTest(t *testing.T, c Command) *Process {
	t.Helper()
	p, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func shell(script string) Command { return Command{Path: "/bin/sh", Args: []string{"-c", script}} }

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func awaitDone(t *testing.T, p *Process) {
	t.Helper()
	select {
	case <-p.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the process is not over after 20 s")
	}
}

func TestOutputAndEnd(t *testing.T) {
	var log strings.Builder
	c := shell(`echo out $X; echo err >&2; exit 3`)
	c.Env, c.Log = []string{"X=y"}, &log
	p := startTest(t, c)
	awaitDone(t, p)
	if !errors.Is(p.Err(), ErrExited) || !strings.Contains(p.Err().Error(), "exit status 3") {
		t.Errorf("it ended with %v", p.Err())
	}
	if want := "out y\nerr\n"; p.Tail() != want || log.String() != want {
		t.Errorf("tail %q, log %q, want %q", p.Tail(), log.String(), want)
	}
	p.Stop(time.Second) // does nothing to what is over
}

func TestOutputsApart(t *testing.T) {
	var out, errs strings.Builder
	c := shell(`echo out $X$HOME; echo err >&2; kill -KILL $$`)
	c.Environ, c.Stdout, c.Stderr = []string{"X=y"}, &out, &errs
	p := startTest(t, c)
	awaitDone(t, p)
	if out.String() != "out y\n" || errs.String() != "err\n" || p.Tail() != "" {
		t.Errorf("standard output %q, error %q, tail %q", out.String(), errs.String(), p.Tail())
	}
	if got := p.State().String(); got != "signal: killed" {
		t.Errorf("it ended with %s", got)
	}
}

func TestTailIsBounded(t *testing.T) {
	p := startTest(t, shell(`i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done`))
	awaitDone(t, p)
	got := p.Tail()
	if len(got) > tailBytes || len(got) < tailBytes-100 {
		t.Errorf("%d bytes kept", len(got))
	}
	if !strings.HasPrefix(got, "line ") || !strings.HasSuffix(got, "line 19999\n") {
		t.Errorf("kept from %.20q to %q", got, got[len(got)-20:])
	}
}

func TestStartFails(t *testing.T) {
	for _, loopback := range []bool{false, true} {
		if _, err := Start(Command{Path: "/no/such/program", Loopback: loopback}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("loopback %v: %v", loopback, err)
		}
	}
}

func TestStop(t *testing.T) {
	p := startTest(t, shell(`trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done`))
	if err := p.Ready(within(t, 20*time.Second), 10*time.Millisecond, says(p, "up")); err != nil {
		t.Fatal(err)
	}
	if p.Err() != nil {
		t.Errorf("%v of a running process", p.Err())
	}
	p.Stop(20 * time.Second)
	if !errors.Is(p.Err(), ErrExited) || !strings.Contains(p.Tail(), "bye") {
		t.Errorf("%v, output %q", p.Err(), p.Tail())
	}
}

func TestStopKillsAfterTheGrace(t *testing.T) {
	p := startTest(t, shell(`trap '' TERM; echo up; while :; do sleep 0.05; done`))
	if err := p.Ready(within(t, 20*time.Second), 10*time.Millisecond, says(p, "up")); err != nil {
		t.Fatal(err)
	}
	p.Stop(100 * time.Millisecond)
	if !strings.Contains(p.Err().Error(), "killed") {
		t.Errorf("it ended with %v", p.Err())
	}
}

var errSilent = errors.New("nothing said yet")

func says(p *Process, word string) func(context.Context) error {
	return func(context.Context) error {
		if strings.Contains(p.Tail(), word) {
			return nil
		}
		return errSilent
	}
}

func TestReadyOfWhatEnds(t *testing.T) {
	p := startTest(t, shell(`echo no such thing; exit 1`))
	err := p.Ready(within(t, 20*time.Second), 10*time.Millisecond, func(context.Context) error { return errSilent })
	if !errors.Is(err, ErrExited) || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("%v", err)
	}
}

func TestReadyObeysItsContext(t *testing.T) {
	p := startTest(t, shell(`sleep 60`))
	err := p.Ready(within(t, 50*time.Millisecond), 10*time.Millisecond, says(p, "never"))
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errSilent) {
		t.Errorf("%v", err)
	}
}

func TestFreePorts(t *testing.T) {
	ports, err := FreePorts(within(t, 20*time.Second), 8)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] || port < 1024 {
			t.Errorf("ports %v", ports)
		}
		seen[port] = true
	}
}

// asRole starts this test binary in a role and returns its lines of output.
func asRole(t *testing.T, role string, loopback bool) (*Process, *bufio.Scanner) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startTest(t, Command{Path: program, Env: []string{roleVariable + "=" + role}, Log: w, Loopback: loopback})
	t.Cleanup(func() { _ = errors.Join(r.Close(), w.Close()) })
	if err := r.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return p, bufio.NewScanner(r)
}
