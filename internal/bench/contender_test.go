package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/supervise"
	"ollamoon/store/memory"
)

// serveOverPipe runs the contender of this project over a store in memory.
func serveOverPipe(t *testing.T) (*json.Encoder, *bufio.Reader) {
	t.Helper()
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- serve(t.Context(), far, func(context.Context, *opening) (*connection, error) {
			s, err := memory.New(1 << 20)
			return &connection{Store: s}, err
		})
	}()
	t.Cleanup(func() {
		_ = near.Close()
		if err := <-ended; err != nil {
			t.Errorf("the contender ended with %v", err)
		}
	})
	return json.NewEncoder(near), bufio.NewReader(near)
}

func TestServeRefusesWhatMakesNoSense(t *testing.T) {
	calls, answers := serveOverPipe(t)
	o := &opening{Model: "m", PageTokens: 8, Pages: 4, SharedPages: 3, PageBytes: 64, ObjectBytes: 144, Seal: Checksum}
	wax := *o
	wax.Seal = "wax"
	for _, step := range []struct {
		call
		want string // in the error; empty when there is none
	}{
		{call{Op: opPublish}, "before open"},
		{call{Op: opOpen}, "before open"},
		{call{Op: opOpen, Open: &wax}, "wax"},
		{call{Op: opOpen, Open: o}, ""},
		{call{Op: opOpen, Open: o}, "no call"},
		{call{Op: opReload, Tokens: make([]int32, 32)}, ""},
		{call{Op: opClose}, ""},
		{call{Op: opReload}, "before open"},
	} {
		if err := calls.Encode(step.call); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var got answer
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		if (step.want == "") != (got.Error == "") || !strings.Contains(got.Error, step.want) {
			t.Errorf("%s: %q, want %q in it", step.Op, got.Error, step.want)
		}
	}
}

// A contender that ends before it connects is an error with its last words, soon.
func TestContenderThatEnds(t *testing.T) {
	began := time.Now()
	_, err := startContender(t.Context(), "mute", t.TempDir(), supervise.Command{
		Path: "/bin/sh", Args: []string{"-c", "echo the disk is on fire; exit 3"},
	})
	if !errors.Is(err, supervise.ErrExited) || !strings.Contains(err.Error(), "the disk is on fire") {
		t.Errorf("a contender that ended: %v", err)
	}
	if took := time.Since(began); took > startTimeout/2 {
		t.Errorf("it took %v to find out", took)
	}
}

// A contender that is killed in the middle is an error, and so is a run whose
// context ends while one is busy.
func TestContenderThatDies(t *testing.T) {
	c, err := startContender(t.Context(), "busy", t.TempDir(), self(t, roleContender))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.call(ctx, call{Op: opPublish}); !errors.Is(err, context.Canceled) {
		t.Errorf("a call whose context is done: %v", err)
	}
	process, err := os.FindProcess(c.process.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.process.Done()
	if _, err := c.call(t.Context(), call{Op: opPublish}); err == nil || !strings.Contains(err.Error(), "busy: publish") {
		t.Errorf("a call of a dead contender: %v", err)
	}
	c.stop()
}
