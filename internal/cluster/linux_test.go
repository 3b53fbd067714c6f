//go:build linux

package cluster

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/supervise"
)

// checkListeners fails the test unless all that the programs listen on is on
// loopback.
func checkListeners(t *testing.T, c *Cluster) {
	t.Helper()
	// The master's RPC and metrics; the owner's RPC, data and handshake.
	want := map[*supervise.Process]int{c.mu.master: 2, c.mu.owners[0].process: 3}
	if c.config.Metadata == MetadataHTTP {
		want[c.mu.master]++
	}
	if c.metadata != nil {
		want[c.metadata] = 1
	}
	for p, count := range want {
		addresses, err := p.Listeners()
		if err != nil || len(addresses) != count {
			t.Errorf("process %d listens at %v, expected %d; %v", p.PID(), addresses, count, err)
		}
		for _, a := range addresses {
			if !a.Addr().IsLoopback() {
				t.Errorf("process %d listens at %s", p.PID(), a)
			}
		}
	}
	if !c.Loopback() {
		t.Error("the cluster says that it is exposed")
	}
}

// parentVariable makes the test binary start a cluster and wait to be killed.
const parentVariable = "CLUSTER_TEST_PARENT"

func playParent() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := Start(ctx, Config{Metadata: MetadataServer})
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	defer c.Close()
	fmt.Println("processes", c.MasterPID(), c.OwnerPID(), c.metadata.PID(), c.Loopback())
	time.Sleep(time.Minute)
}

func startParent(t *testing.T, loopback bool, env ...string) *supervise.Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := supervise.Start(supervise.Command{
		Path: program, Env: append(env, parentVariable+"=1"), Loopback: loopback,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// awaitProcesses returns what a parent says of its cluster.
func awaitProcesses(t *testing.T, parent *supervise.Process) (pids [3]int, loopback bool) {
	t.Helper()
	if err := parent.Ready(within(t, time.Minute), 50*time.Millisecond, func(context.Context) error {
		_, err := fmt.Sscanf(parent.Tail(), "processes %d %d %d %t\n", &pids[0], &pids[1], &pids[2], &loopback)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return pids, loopback
}

// Where ports cannot be kept on loopback (a process under a filter cannot set
// another one) a cluster starts only if that is allowed.
func TestExposed(t *testing.T) {
	parent := startParent(t, true, "OLLAMOON_EXPOSE=")
	select {
	case <-parent.Done():
	case <-time.After(time.Minute):
		t.Fatal("still running")
	}
	for _, want := range []string{supervise.ErrLoopback.Error(), "OLLAMOON_EXPOSE=1"} {
		if !strings.Contains(parent.Tail(), want) {
			t.Errorf("it does not say %q: %s", want, parent.Tail())
		}
	}
	if _, loopback := awaitProcesses(t, startParent(t, true, "OLLAMOON_EXPOSE=1")); loopback {
		t.Error("the cluster does not say that it is exposed")
	}
}

func TestDiesWithItsParent(t *testing.T) {
	parent := startParent(t, false)
	pids, _ := awaitProcesses(t, parent)
	for _, pid := range pids {
		if !runs(pid) {
			t.Errorf("process %d does not run", pid)
		}
	}
	parent.Kill()
	for deadline := time.Now().Add(20 * time.Second); slices.ContainsFunc(pids[:], runs); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a program outlives its parent by 20 s")
		}
	}
}

// runs reports whether a process is there and has not ended: one whose new parent
// does not wait for it stays as a zombie.
func runs(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "State:\tZ")
}
