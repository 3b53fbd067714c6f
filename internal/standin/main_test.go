package standin

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
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/engine"
)

// roleVariable makes the test binary act as the stand-in.
const roleVariable = "STANDIN_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		// A test under nohup ignores this signal, and its children would too.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		goleak.VerifyTestMain(m)
		return
	}
	Run(context.Background(), os.Args[0], os.Args[1:], os.Environ()).Now()
}

// wait bounds everything that a test waits for.
const wait = 90 * time.Second

func installed(t *testing.T) engine.Programs {
	t.Helper()
	programs, err := engine.Find()
	if err != nil {
		t.Fatal(err)
	}
	return programs
}

// A program is a llama-server to run: the real one, or the stand-in.
type program struct {
	path string
	env  []string
}

func stock(t *testing.T) program {
	return program{path: installed(t).Binary, env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}}
}

// standing is the stand-in, with settings of its own.
func standing(t *testing.T, settings ...string) program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := stock(t)
	p.env = append(p.env, roleVariable+"=stand-in", "OLLAMOON_BINARY="+p.path)
	p.env = append(p.env, settings...)
	p.path = self
	return p
}

// output of a process, read while it runs.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// A running program.
type running struct {
	t       *testing.T
	cmd     *exec.Cmd
	out     *output
	errs    *output
	done    chan struct{}
	client  *http.Client
	address string // URL without a path
	key     string
}

// start starts a program; the test kills it if it has not ended.
func (p program) start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{t: t, out: &output{}, errs: &output{}, done: make(chan struct{})}
	r.cmd = exec.Command(p.path, args...) //nolint:gosec,noctx // a program of the test, killed by it
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = p.env, r.out, r.errs
	r.cmd.WaitDelay = 5 * time.Second
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // its state says how it ended
		close(r.done)
	}()
	transport := &http.Transport{}
	r.client = &http.Client{Transport: transport, Timeout: wait}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
		transport.CloseIdleConnections()
		if t.Failed() {
			t.Logf("%v\nstandard output:\n%s\nstandard error:\n%s", r.cmd.Args, r.out, r.errs)
		}
	})
	return r
}

// model is arguments for a small and quick server.
func model(t *testing.T, more ...string) []string {
	return append([]string{"-m", installed(t).Model, "-ngl", "0", "-t", "1", "-c", "2048", "-np", "1"}, more...)
}

// serve starts a program on a free port and waits until it is ready.
func (p program) serve(t *testing.T, args ...string) *running {
	t.Helper()
	port := freePort(t)
	r := p.start(t, append(args, "--port", port)...)
	r.address = "http://127.0.0.1:" + port
	r.ready()
	return r
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a test
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// ready waits for health, of which it returns the first answer that was 503.
func (r *running) ready() (loading string) {
	r.t.Helper()
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		select {
		case <-r.done:
			r.t.Fatalf("it ended: %s", r.errs)
		default:
		}
		status, body, _, err := r.try(http.MethodGet, "/health", "")
		switch {
		case err == nil && status == http.StatusOK:
			return loading
		case err == nil && loading == "":
			loading = fmt.Sprint(status, " ", body)
		}
	}
	r.t.Fatal("it is not ready")
	return ""
}

func (r *running) try(method, path, body string) (int, string, http.Header, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, r.address+path, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	if r.key != "" {
		request.Header.Set("Authorization", "Bearer "+r.key)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer response.Body.Close() //nolint:errcheck // a test
	data, err := io.ReadAll(response.Body)
	return response.StatusCode, string(data), response.Header, err
}

func (r *running) ask(method, path, body string) (int, string, http.Header) {
	r.t.Helper()
	status, answer, header, err := r.try(method, path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return status, answer, header
}

// status is the stand-in's of itself.
func (r *running) status() Status {
	r.t.Helper()
	code, body, _ := r.ask(http.MethodGet, statusPath, "")
	var s Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || code != http.StatusOK {
		r.t.Fatalf("status %d, %s: %v", code, body, err)
	}
	return s
}

// A completion is what matters of an answer.
type completion struct {
	Content string
	Timings struct {
		Cached   int `json:"cache_n"`
		Computed int `json:"prompt_n"`
	}
}

func (r *running) complete(prompt string) completion {
	r.t.Helper()
	request, err := json.Marshal(map[string]any{"prompt": prompt, "n_predict": 8, "temperature": 0})
	if err != nil {
		r.t.Fatal(err)
	}
	code, body, _ := r.ask(http.MethodPost, "/completion", string(request))
	var c completion
	if err := json.Unmarshal([]byte(body), &c); err != nil || code != http.StatusOK {
		r.t.Fatalf("%d, %s: %v", code, body, err)
	}
	return c
}

// end waits for the process's end and returns how it ended.
func (r *running) end() Exit {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(wait):
		r.t.Fatalf("%v does not end", r.cmd.Args)
	}
	return exitOf(r.cmd.ProcessState)
}

func (r *running) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// gone waits until a process is over.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) || zombie(pid) {
			return
		}
	}
	t.Errorf("process %d lives on", pid)
}

// zombie reports whether a process is over and its new parent does not wait.
func zombie(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && strings.Contains(string(status), "State:\tZ")
}
