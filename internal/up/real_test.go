//go:build linux

package up

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A whole cluster with a real Mooncake Store and a real model: two requests share
// a prompt's pages, a worker and the master that are killed come back, and an
// interrupt ends all of it.
func TestCluster(t *testing.T) {
	c := up(t, "--prefill", "1", "--decode", "2", "--segment", "256MiB")
	for program, n := range map[string]int{"mooncake_master": 1, "mooncake_client": 1, "ollamoon": 5, "llama-server": 3} {
		if found := c.processes(); len(found[program]) != n {
			t.Errorf("%d processes of %s, want %d: %v", len(found[program]), program, n, found)
		}
	}
	if says := c.out.String(); strings.Contains(says, "shares no prompts") {
		t.Error(says)
	}
	c.shares()

	c.kill("decode-2")
	c.killProcess(c.processes()["mooncake_master"][0])
	c.says("decode-2 has ended and is started again in 500ms: supervise: process exited: signal: killed", 1)
	c.says("decode-2 runs again", 1)
	c.says("mooncake_master runs again", 1)
	if status := c.post(c.child("decode-2").URL()+"/completion", "", `{"prompt":"Once","n_predict":2}`); status != http.StatusOK {
		t.Errorf("the worker that is back answers with %d", status)
	}
	c.until("the router uses it", func() bool {
		var status struct{ Workers []struct{ ID, State string } }
		err := get(t.Context(), c.Client, c.URL+"/ollamoon/status", &status)
		return err == nil && len(status.Workers) == 2 && status.Workers[0].State == "healthy" && status.Workers[1].State == "healthy"
	})

	// The router too, where it was; and the owner of the pages, with all of them: requests
	// are answered meanwhile, and shared when it is back.
	c.killProcess(c.routerPID())
	c.says("router runs again", 1)
	c.killProcess(c.processes()["mooncake_client"][0])
	if status := c.post(c.URL+"/completion", "", prompt(0)); status != http.StatusOK {
		t.Errorf("without an owner of pages: %d", status)
	}
	c.says("mooncake_client runs again", 1)
	before := c.published()
	for n := 1; c.published() == before; n++ {
		if status := c.post(c.URL+"/completion", "", prompt(n)); status != http.StatusOK || n == 20 {
			t.Fatalf("request %d: status %d, and %d pages are published", n, status, before)
		}
	}

	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.end(0)
	order := regexp.MustCompile(`(?s)stopping the router.*stopping the decode workers.*stopping the prefill workers.*stopping Mooncake`)
	if !order.MatchString(c.out.String()) {
		t.Error("it does not end in order")
	}
}

// Without Mooncake; and nothing survives a killed parent.
func TestClusterOnAFolder(t *testing.T) {
	c := up(t, "--prefill", "1", "--decode", "2", "--store", "file:"+filepath.Join(t.TempDir(), "pages"))
	if found := c.processes(); len(found["mooncake_master"]) != 0 {
		t.Error(found)
	}
	c.shares()
	c.processes()
	c.killProcess(c.cmd.Process.Pid)
	c.end(-1)
}

// API keys are asked for at the router, and workers answer nobody else.
func TestClusterWithKeys(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("alice key-of-alice\nbob key-of-bob\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := up(t, "--prefill", "0", "--decode", "1", "--store", "file:"+filepath.Join(t.TempDir(), "pages"), "--api-keys", keys)
	const body = `{"prompt":"Once","n_predict":2}`
	for _, ask := range []struct {
		url, key string
		want     int
	}{
		{c.URL, "", http.StatusUnauthorized},
		{c.URL, "key-of-carol", http.StatusUnauthorized},
		{c.URL, "key-of-alice", http.StatusOK},
		{c.URL, "key-of-bob", http.StatusOK},
		{c.child("decode-1").URL(), "key-of-alice", http.StatusUnauthorized},
	} {
		if got := c.post(ask.url+"/completion", ask.key, body); got != ask.want {
			t.Errorf("%s with the key %q answers with %d, want %d", ask.url, ask.key, got, ask.want)
		}
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.end(0)
}
