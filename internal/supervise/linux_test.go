//go:build linux

package supervise

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestListensOnLoopback(t *testing.T) {
	p, lines := asRole(t, "listener", true)
	var got []netip.Addr
	for lines.Scan() && lines.Text() != "all" {
		address, err := netip.ParseAddrPort(strings.TrimPrefix(lines.Text(), "listening "))
		if err != nil {
			t.Fatal(lines.Text())
		}
		got = append(got, address.Addr().Unmap())
	}
	if lines.Err() != nil || len(got) != 4 {
		t.Fatalf("%v, %v", got, lines.Err())
	}
	for i, want := range []string{"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.2"} {
		if got[i] != netip.MustParseAddr(want) {
			t.Errorf("listener %d is on %s, want %s", i, got[i], want)
		}
	}
	listeners, err := p.Listeners()
	if err != nil || len(listeners) != len(got) {
		t.Errorf("the kernel shows listeners %v, %v", listeners, err)
	}
	for _, l := range listeners {
		if !l.Addr().IsLoopback() {
			t.Errorf("the kernel shows a listener at %s", l)
		}
	}
}

// Without the filter the same program listens on all interfaces.
func TestListensAnywhereByItself(t *testing.T) {
	_, lines := asRole(t, "listener", false)
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	if !strings.HasPrefix(lines.Text(), "listening 0.0.0.0:") {
		t.Error(lines.Text())
	}
}

func TestDiesWithItsParent(t *testing.T) { diesWithItsParent(t, "parent") }

// What ends a child with its parent on other systems works on this one too.
func TestWatcherKills(t *testing.T) { diesWithItsParent(t, "watched") }

func diesWithItsParent(t *testing.T, role string) {
	t.Helper()
	parent, lines := asRole(t, role, false)
	if !lines.Scan() {
		t.Fatal(lines.Err())
	}
	child, err := strconv.Atoi(lines.Text())
	if err != nil {
		t.Fatal(lines.Text())
	}
	if !runs(child) {
		t.Fatal("the child does not run")
	}
	parent.Kill()
	for deadline := time.Now().Add(20 * time.Second); runs(child); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the child outlives its parent by 20 s")
		}
	}
}

// runs reports whether a process is there and has not ended: one whose new parent
// does not wait for it stays as a zombie.
func runs(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}

// A process under one such filter cannot set another: the error that a system
// without the means gives too.
func TestNoLoopback(t *testing.T) {
	_, lines := asRole(t, "parent", true)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "failed") || !strings.Contains(lines.Text(), ErrLoopback.Error()) {
		t.Error(lines.Text(), lines.Err())
	}
}

// A child goes on although the thread of whoever called Start ends, and many can
// run at once.
func TestManyChildren(t *testing.T) {
	for range 20 {
		p := startTest(t, Command{Path: "/bin/sleep", Args: []string{"60"}, Loopback: true})
		t.Cleanup(func() {
			if p.Err() != nil {
				t.Errorf("a child ended early: %v", p.Err())
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
}
