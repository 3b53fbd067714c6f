package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ollamoon/internal/cluster"
	"ollamoon/internal/doctor"
	"ollamoon/internal/engine"
	"ollamoon/internal/lookup"
	"ollamoon/internal/ollama"
)

// patience bounds what a test waits for.
const patience = 2 * time.Minute

// build builds this program for a test.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ollamoon")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// A machine has this program, and an Ollama with a real llama-server.
type machine struct {
	t       *testing.T
	program string
	home    string
	lib     string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	programs, err := engine.Find()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, program: build(t), home: t.TempDir()}
	m.lib = filepath.Join(m.home, "ollama", "lib", "ollama")
	for _, folder := range []string{m.lib, filepath.Join(m.home, "ollama", "bin")} {
		if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // as installed
			t.Fatal(err)
		}
	}
	if err := os.Symlink(programs.Binary, filepath.Join(m.lib, "llama-server")); err != nil {
		t.Fatal(err)
	}
	// Settings of the folder's own, or root's would lie in /etc.
	if err := os.WriteFile(filepath.Join(m.lib, "ollamoon.yaml"), []byte("# of a test\n"), 0o644); err != nil { //nolint:gosec // Ollama's user reads it
		t.Fatal(err)
	}
	return m
}

// command runs this program in the machine and returns its standard output and
// exit code.
func (m *machine) command(args ...string) (string, int) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.program, args...) //nolint:gosec // built above
	cmd.Env = m.env()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.t.Fatalf("%v: %v", args, err)
	}
	m.t.Logf("%v: %d\n%s%s", args, cmd.ProcessState.ExitCode(), &out, &errs)
	return out.String(), cmd.ProcessState.ExitCode()
}

func (m *machine) env() []string {
	return []string{"HOME=" + m.home, "PATH=/usr/bin:/bin", "TMPDIR=" + os.TempDir()}
}

// ask runs a command that prints JSON.
func ask[T any](m *machine, code int, args ...string) T {
	m.t.Helper()
	var value T
	out, got := m.command(append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &value); err != nil || got != code {
		m.t.Fatalf("%v: exit code %d, %v: %s", args, got, err, out)
	}
	return value
}

// A server is a llama-server that Ollama would have started.
type server struct {
	m   *machine
	url string
}

func (m *machine) serve() *server {
	m.t.Helper()
	programs, err := engine.Find()
	if err != nil {
		m.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		m.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	// As Ollama does, but for the model's name and a small context.
	args := strings.Fields("--port " + port + " --host 127.0.0.1 --no-webui --offline -c 2048 -np 1 --log-verbosity 4 --no-log-prefix " +
		"--no-log-timestamps --no-jinja --chat-template chatml --flash-attn auto -b 512 -ub 512 -t 2 --context-shift --keep 4 -ngl 0")
	cmd := exec.Command(filepath.Join(m.lib, "llama-server"), append([]string{"--model", programs.Model}, args...)...) //nolint:gosec,noctx // killed below
	var log bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = m.env(), &log, &log
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if m.t.Failed() {
			m.t.Logf("llama-server:\n%s", &log)
		}
	})
	s := &server{m: m, url: "http://127.0.0.1:" + port}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if code, _, err := s.try(http.MethodGet, "/health", ""); err == nil && code == http.StatusOK {
			return s
		}
		if time.Now().After(deadline) {
			m.t.Fatal("llama-server is not ready")
		}
	}
}

func (s *server) try(method, path, body string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(s.m.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // a test
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, data, err
}

// complete has a prompt answered and returns how much of it was computed.
func (s *server) complete(prompt string) int {
	s.m.t.Helper()
	body, err := json.Marshal(map[string]any{"prompt": prompt, "n_predict": 2, "temperature": 0, "cache_prompt": true})
	if err != nil {
		s.m.t.Fatal(err)
	}
	var answer struct {
		Timings struct {
			Computed int `json:"prompt_n"`
		}
	}
	code, data, err := s.try(http.MethodPost, "/completion", string(body))
	if err != nil || code != http.StatusOK || json.Unmarshal(data, &answer) != nil {
		s.m.t.Fatalf("%d, %s, %v", code, data, err)
	}
	return answer.Timings.Computed
}

// published waits until so many pages are in the store.
func (s *server) published(pages int) {
	s.m.t.Helper()
	var status struct{ Pages struct{ Published int } }
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, data, err := s.try(http.MethodGet, "/ollamoon/status", ""); err == nil && json.Unmarshal(data, &status) == nil && status.Pages.Published >= pages {
			return
		}
	}
	s.m.t.Fatalf("of %d pages %d were published", pages, status.Pages.Published)
}

// file writes a prompt into a file.
func (m *machine) file(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.home, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// An Ollama is attached to, shares through a real Mooncake Store, is looked into by
// every command, and is detached from while it runs.
func TestAttachedOllama(t *testing.T) {
	programs, err := cluster.Programs(cluster.Version)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Programs: programs, SegmentBytes: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := newMachine(t)
	lib := "--lib=" + m.lib
	store := "mooncake://" + c.Master() + "?metadata=" + c.Metadata()
	if out, code := m.command("attach", lib, "--store", store, "--role", "mixed"); code != 0 || !strings.Contains(out, store) {
		t.Fatalf("attaching: %s", out)
	}
	s := m.serve()

	// A clock at the head of a prompt, and at its tail.
	var body strings.Builder
	for i := range 55 {
		fmt.Fprintf(&body, "Rule %d of the house is to be kept. ", i)
	}
	head := func(clock string) string {
		return "You are a helpful assistant of a house with many rules, and you answer in short words. It is " + clock + ". " + body.String()
	}
	tail := func(clock string) string { return body.String() + "It is " + clock + "." }
	s.complete(head("noon"))
	s.complete(tail("noon"))
	s.published(4)
	worker := "--worker=" + s.url

	headed := ask[lookup.Report](m, 0, "lookup", worker, m.file("noon", head("noon")), m.file("night", head("night")))
	if there, other, d := headed.Prompts[0], headed.Prompts[1], headed.Difference; there.Run < 2 || there.LoadTokens != there.Run*256 || other.Run != 0 || other.LoadTokens != 0 ||
		d.Page != 0 || d.Token < 15 || d.Token > 25 || d.Texts[0] == nil || strings.TrimSpace(*d.Texts[0]) != "noon" || strings.TrimSpace(*d.Texts[1]) != "night" || !strings.HasSuffix(*d.Before, "It is") {
		t.Errorf("a clock at the head: %+v, %+v", headed, d)
	}
	tailed := ask[lookup.Report](m, 0, "lookup", worker, m.file("noon", tail("noon")), m.file("night", tail("night")))
	if other, d := tailed.Prompts[1], tailed.Difference; other.Run < 2 || other.Run != d.Page || len(other.Pages) < d.Page || tailed.Store != store {
		t.Errorf("a clock at the tail: %+v, %+v", tailed, d)
	}
	chat := m.file("chat.json", `{"messages": [{"role": "system", "content": "`+body.String()+`"}, {"role": "user", "content": "Hello"}]}`)
	if chatted := ask[lookup.Report](m, 0, "lookup", worker, "--as=chat", chat); chatted.Prompts[0].Tokens < 500 || chatted.Prompts[0].Run != 0 {
		t.Errorf("a chat: %+v", chatted)
	}

	for _, f := range ask[[]doctor.Finding](m, 0, "doctor", lib, worker) {
		if f.State != doctor.OK {
			t.Errorf("%+v", f)
		}
	}
	status := ask[ollama.Status](m, 0, "status", lib)
	if len(status.Running) != 1 || status.Running[0].URL != s.url || !status.Running[0].Sharing || !status.Attached || status.Store != store {
		t.Errorf("%+v", status)
	}

	// Taken out and put back while it runs, which it goes on doing.
	if _, code := m.command("detach", lib); code != 0 {
		t.Error("it is not detached")
	}
	if computed := s.complete(head("noon") + "Now?"); computed > 200 {
		t.Errorf("%d tokens were computed", computed)
	}
	if status := ask[ollama.Status](m, 1, "status", lib); status.Attached || status.Folders[0].State != ollama.Detached {
		t.Errorf("%+v", status)
	}
	stock := m.serve()
	if code, _, err := stock.try(http.MethodGet, "/ollamoon/status", ""); err != nil || code != http.StatusNotFound {
		t.Errorf("what is started now answers %d, %v", code, err)
	}
	if _, code := m.command("attach", lib); code != 0 {
		t.Error("it is not attached again")
	}
	status = ask[ollama.Status](m, 0, "status", lib)
	sharing := 0
	for _, r := range status.Running {
		if r.Sharing {
			sharing++
		} else if r.URL != stock.url || !strings.Contains(r.Reason, "before Ollama was attached") {
			t.Errorf("%+v", r)
		}
	}
	if sharing != 1 || len(status.Running) != 2 {
		t.Errorf("%+v", status.Running)
	}
}
