package standin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ollamoon/internal/settings"
)

// What stands here for Ollama starts, watches, asks and ends a llama-server as
// Ollama does. Facts: ollama/ollama at fb30760996, discover/llama_server.go and
// llm/llama_server.go, and what was recorded of it, in testdata/ollama.

// recorded reads a file of what was recorded of Ollama.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "ollama", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The command lines that were recorded, by their places in argv.json.
const (
	discoveryLine = iota
	devicesLine
	loadLine
)

func commandLine(t *testing.T, which int) []string {
	t.Helper()
	var lines [][]string
	if err := json.Unmarshal(recorded(t, "argv.json"), &lines); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(lines[which])
}

// put replaces the value that follows an option.
func put(args []string, option, value string) {
	args[slices.Index(args, option)+1] = value
}

// without is arguments without one and the values after it.
func without(args []string, option string, values int) []string {
	if i := slices.Index(args, option); i >= 0 {
		return slices.Delete(slices.Clone(args), i, i+1+values)
	}
	return args
}

// knows is whether the installed engine has an option: there are builds for two
// kinds of processors.
func knows(t *testing.T, option string) bool {
	t.Helper()
	help, err := exec.CommandContext(t.Context(), installed(t).Binary, "--help").CombinedOutput() //nolint:gosec // as above
	if err != nil {
		t.Fatalf("%v\n%s", err, help)
	}
	return bytes.Contains(help, []byte(option+" "))
}

// An ollama has a folder with a llama-server in it and a folder of models.
type ollama struct {
	t *testing.T
	program
	models string // the folder above blobs
}

// ollamaWith installs an Ollama with the stock llama-server, or where there are
// settings, with the stand-in in its place, as attaching leaves it.
func ollamaWith(t *testing.T, yaml string) ollama {
	t.Helper()
	o := ollama{t: t, program: stock(t), models: "/nowhere"}
	lib := filepath.Join(t.TempDir(), "lib", "ollama")
	if err := os.MkdirAll(lib, 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	server := filepath.Join(lib, Name)
	if yaml == "" {
		err = os.Symlink(o.path, server)
	} else {
		err = errors.Join(os.Symlink(o.path, filepath.Join(lib, RealName)), os.Symlink(self, server),
			os.WriteFile(filepath.Join(lib, settings.FileName), []byte(yaml), 0o600))
		o.env = append(o.env, roleVariable+"=stand-in")
	}
	if err != nil {
		t.Fatal(err)
	}
	o.path = server
	o.env = append(o.env, "LD_LIBRARY_PATH="+lib, "LLAMA_MEDIA_MARKER=<__ollama_media_00__>", "OLLAMA_HOST=127.0.0.1:11434")
	return o
}

// discover asks for devices: a run without a model, killed when it has named the
// system, and a list. It returns that line and the list.
func (o ollama) discover() (system, devices string) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), wait)
	defer cancel()
	args, port := commandLine(o.t, discoveryLine), freePort(o.t)
	put(args, "--port", port)
	run := exec.CommandContext(ctx, o.path, args...) //nolint:gosec // a program of the test
	run.Env = o.env
	lines, err := run.StderrPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		o.t.Fatal(err)
	}
	for scanner := bufio.NewScanner(lines); system == "" && scanner.Scan(); {
		if strings.Contains(scanner.Text(), "system_info:") {
			system = logTime.ReplaceAllString(scanner.Text(), "")
		}
	}
	_ = run.Process.Kill()
	_ = run.Wait() // it was killed
	o.unbound(port)
	list := exec.CommandContext(ctx, o.path, commandLine(o.t, devicesLine)...) //nolint:gosec // as above
	list.Env = o.env
	out, err := list.CombinedOutput()
	if err != nil {
		o.t.Errorf("the list of devices: %v\n%s", err, out)
	}
	return system, string(out)
}

// unbound checks that nobody holds a port.
func (o ollama) unbound(port string) {
	o.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:"+port) //nolint:noctx // at once
	if err != nil {
		o.t.Errorf("the port of a process that was killed: %v", err)
		return
	}
	_ = l.Close()
}

// A launch is what Ollama decides before it starts a llama-server.
type launch struct {
	model             string
	context, parallel int  // of one request; requests at once
	chat              bool // by the model's own template
	embedding         bool
}

func (o ollama) args(l launch, port string) []string {
	args := commandLine(o.t, loadLine)
	put(args, "--model", l.model)
	put(args, "--port", port)
	put(args, "-c", strconv.Itoa(l.context*l.parallel))
	put(args, "-np", strconv.Itoa(l.parallel))
	put(args, "-t", "1") // here the recording is not followed: tests share the processors
	if !knows(o.t, "--load-mode") {
		args = append(without(args, "--load-mode", 1), "--no-mmap") // what older builds call it
	}
	if l.chat {
		args = without(without(args, "--no-jinja", 0), "--chat-template", 1)
	}
	if l.embedding {
		put(args, "-b", strconv.Itoa(l.context))
		put(args, "-ub", strconv.Itoa(l.context))
		args = slices.Insert(args, slices.Index(args, "-b"), "--embedding")
	}
	return args
}

// A runner is a llama-server that Ollama has started.
type runner struct {
	*running
	of       ollama
	log      *runnerLog
	statuses []string // of its health, each that differs from the one before
}

// start starts a llama-server, whose output Ollama reads by one pipe.
func (o ollama) start(l launch) *runner {
	o.t.Helper()
	port := freePort(o.t)
	said := &output{}
	r := &runner{of: o, log: &runnerLog{to: said}}
	r.running = &running{t: o.t, out: said, errs: said, done: make(chan struct{}), address: "http://127.0.0.1:" + port}
	r.cmd = exec.Command(o.path, o.args(l, port)...) //nolint:gosec,noctx // a program of the test, killed by it
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = o.env, r.log, r.log
	r.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: wait}
	if err := r.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // its state says how it ended
		close(r.done)
	}()
	o.t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
		if o.t.Failed() {
			o.t.Logf("%v\n%s", r.cmd.Args, r.out)
		}
	})
	return r
}

// load starts a llama-server and waits until it is ready.
func (o ollama) load(l launch) *runner {
	o.t.Helper()
	r := o.start(l)
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(250 * time.Millisecond) {
		select {
		case <-r.done:
			o.t.Fatalf("it ended: %s", r.out)
		default:
		}
		status := r.health()
		if n := len(r.statuses); n == 0 || r.statuses[n-1] != status {
			r.statuses = append(r.statuses, status)
		}
		if status == "ok" {
			return r
		}
	}
	o.t.Fatalf("it is not ready: %v", r.statuses)
	return nil
}

// health is the llama-server's state as Ollama understands it.
func (r *runner) health() string {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.address+"/health", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := r.client.Do(request)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ECONNREFUSED):
		return "not responding"
	case err != nil:
		return err.Error()
	}
	defer response.Body.Close() //nolint:errcheck // a test
	var said struct {
		Status string
		Error  struct{ Message string }
	}
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil {
		return err.Error()
	}
	return strings.ToLower(said.Status + said.Error.Message)
}

// descendants are the processes that a process has started, and those of them.
func descendants(pid int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // a fixed pattern
	for _, stat := range stats {
		data, err := os.ReadFile(stat) //nolint:gosec // of a process
		if err != nil {
			continue // it is over
		}
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		if fields[1] == strconv.Itoa(pid) { // its parent
			pids = append(pids, append(descendants(child), child)...)
		}
	}
	return pids
}

// unload ends a llama-server: Ollama kills it.
func (r *runner) unload() {
	r.t.Helper()
	children := descendants(r.cmd.Process.Pid)
	r.signal(syscall.SIGKILL)
	r.end()
	for _, pid := range children {
		gone(r.t, pid)
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(r.address, "http://"), ":")
	r.of.unbound(port)
}
