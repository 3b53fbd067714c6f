//go:build linux

package up

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// wait bounds everything that a test waits for.
const wait = 90 * time.Second

// mark is a variable that all processes of a cluster inherit.
const mark = "UP_TEST_RUN"

// output of a process, read while it runs.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// A command is a running `ollamoon up`, with its cluster.
type command struct {
	Running
	t         *testing.T
	cmd       *exec.Cmd
	out       output
	done      chan struct{}
	mark      string
	temporary string
	pids      map[int]bool // all that its processes have had, as far as was looked
}

// program builds this project's program.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ollamoon")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../cmd/ollamoon")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	return path
}

// up starts `ollamoon up` and returns when it is ready.
func up(t *testing.T, args ...string) *command {
	t.Helper()
	c := &command{t: t, done: make(chan struct{}), mark: mark + "=" + rand.Text(), temporary: t.TempDir(), pids: map[int]bool{}}
	c.cmd = exec.Command(program(t), append([]string{"up", "--port", "0", "--ctx", "4096", "--log-dir", t.TempDir()}, args...)...) //nolint:noctx // a program of the test, killed by it
	c.cmd.Env = append(os.Environ(), c.mark, "TMPDIR="+c.temporary, "HOME="+t.TempDir())
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.WaitDelay = &c.out, &c.out, 5*time.Second
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = c.cmd.Wait() // its state says how it ended
		close(c.done)
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
		if t.Failed() {
			t.Log(c.out.String())
		}
	})
	c.says("Ctrl-C ends all of it", 1)
	c.Client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	c.URL = regexp.MustCompile(`ready: (\S+)`).FindStringSubmatch(c.out.String())[1]
	for _, found := range regexp.MustCompile(`curl (\S+)/ollamoon/status +((prefill|decode)-\d): `).FindAllStringSubmatch(c.out.String(), -1) {
		c.Children = append(c.Children, Child{Name: found[2], Kind: Kind(found[3]), Address: strings.TrimPrefix(found[1], "http://")})
	}
	c.processes()
	return c
}

// says waits until something has been printed so often.
func (c *command) says(what string, times int) {
	c.t.Helper()
	c.until(what, func() bool { return strings.Count(c.out.String(), what) >= times })
}

func (c *command) until(what string, so func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(wait); !so(); time.Sleep(20 * time.Millisecond) {
		select {
		case <-c.done:
			c.t.Fatalf("it has ended before: %s", what)
		default:
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("it takes more than %v until: %s", wait, what)
		}
	}
}

// processes returns the ids of the running processes that are of this cluster,
// by the names of their programs.
func (c *command) processes() map[string][]int {
	c.t.Helper()
	found := map[string][]int{}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), c.mark) {
			continue // a zombie has none
		}
		name, err := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
		pid, failed := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || failed != nil {
			continue
		}
		program := strings.TrimSpace(string(name))
		found[program] = append(found[program], pid)
		c.pids[pid] = true
	}
	return found
}

// child returns one by its name.
func (c *command) child(name string) Child {
	c.t.Helper()
	i := slices.IndexFunc(c.Children, func(each Child) bool { return each.Name == name })
	if i < 0 {
		c.t.Fatalf("no %s among %+v", name, c.Children)
	}
	return c.Children[i]
}

// kill kills the worker of a name; the engine behind it dies with it.
func (c *command) kill(name string) {
	c.t.Helper()
	var status struct{ Engine struct{ PID int } }
	if err := get(c.t.Context(), c.Client, c.child(name).URL()+"/ollamoon/status", &status); err != nil {
		c.t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", status.Engine.PID))
	if err != nil {
		c.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ") // its name is in brackets
	parent, err := strconv.Atoi(strings.Fields(after)[1])
	if err != nil || !c.pids[parent] {
		c.t.Fatalf("process %d, %v", parent, err)
	}
	c.killProcess(parent)
}

func (c *command) killProcess(pid int) {
	c.t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
}

// post sends a body and returns the status of the answer.
func (c *command) post(url, key, body string) int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), wait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := c.Client.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var answer json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		c.t.Errorf("%s: %v", url, err)
	}
	return response.StatusCode
}

// routerPID returns the router's process.
func (c *command) routerPID() int {
	c.t.Helper()
	for _, pid := range c.processes()["ollamoon"] {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if args := strings.Split(string(line), "\x00"); err == nil && len(args) > 1 && args[1] == "route" {
			return pid
		}
	}
	c.t.Fatal("no router runs")
	return 0
}

// prompt is the body of a request of some hundred tokens.
func prompt(n int) string {
	return fmt.Sprintf(`{"prompt":"%s","n_predict":2}`, strings.Repeat(fmt.Sprintf("Sheep number %d jumps over the fence. ", n), 65))
}

// published is how many pages the workers have published.
func (c *command) published() (pages int64) {
	c.t.Helper()
	for _, child := range c.Children {
		var status struct{ Pages struct{ Published int64 } }
		if err := get(c.t.Context(), c.Client, child.URL()+"/ollamoon/status", &status); err != nil {
			c.t.Fatal(err)
		}
		pages += status.Pages.Published
	}
	return pages
}

// end waits for the end, which leaves no process behind, no folder, and nothing
// in shared memory.
func (c *command) end(code int) {
	c.t.Helper()
	c.processes()
	select {
	case <-c.done:
	case <-time.After(wait):
		c.t.Fatal("it does not end")
	}
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("it ends with %d, want %d", got, code)
	}
	for deadline := time.Now().Add(wait); len(c.processes()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("still running: %v", c.processes())
		}
	}
	if code < 0 {
		return // what a killed process leaves, the next removes
	}
	own := "ollamoon-" + strconv.Itoa(os.Getuid())
	for _, pattern := range []string{
		filepath.Join(c.temporary, folderPrefix+"*"), filepath.Join(c.temporary, own, "*"),
		filepath.Join("/tmp", own, "*"), filepath.Join("/dev/shm", own, "*"),
	} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, path := range left {
			pid, err := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(filepath.Base(path)))
			if err != nil || c.pids[pid] || strings.HasPrefix(path, c.temporary) {
				c.t.Errorf("left behind: %s", path)
			}
		}
	}
}

// shares has two requests sent that begin alike: one worker has the beginning from
// the prefill worker, by the store, the other too or from the first.
func (c *command) shares() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), wait)
	defer cancel()
	tried, err := c.Try(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	pages := int64(0)
	for i, a := range tried.Answers {
		pages = int64((a.Prompt - 64) / 256) // a boundary leaves 64 tokens at least
		if a.Stored != int(pages)*256 || a.Cached != a.Stored || pages < 4 || a.Text == "" || a.FirstToken <= 0 || a.Whole < a.FirstToken {
			c.t.Errorf("request %d: %+v", i+1, a)
		}
	}
	if tried.Elsewhere != pages {
		c.t.Errorf("the prefill worker has published %d pages, want %d", tried.Elsewhere, pages)
	}
	if a, b := tried.Answers[0].Worker, tried.Answers[1].Worker; a == b || !strings.HasPrefix(a, "decode-") || !strings.HasPrefix(b, "decode-") {
		c.t.Errorf("the requests are served by %q and %q", a, b)
	}
	var table bytes.Buffer
	if err := tried.Write(&table); err != nil || !strings.Contains(table.String(), tried.Answers[1].Worker) {
		c.t.Errorf("%v: %s", err, table.String())
	}
	c.t.Log("\n" + table.String())
}
