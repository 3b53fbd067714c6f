package standin

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

var logTime = regexp.MustCompile(`(?m)^(\d+\.){3}\d+ `)

// said is what a program printed, without times and without the stand-in's own
// lines.
func said(r *running) (stdout, stderr string) {
	var lines []string
	for line := range strings.Lines(r.errs.String()) {
		if !strings.HasPrefix(line, logPrefix) {
			lines = append(lines, logTime.ReplaceAllString(line, ""))
		}
	}
	return r.out.String(), strings.Join(lines, "")
}

// What ends by itself ends in the same way, and says the same.
func TestEndsAsTheEngineDoes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // a test
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	socket := filepath.Join(t.TempDir(), "x.sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"version":           {"--version"},
		"help":              {"--help"},
		"devices":           {"--list-devices", "--offline"},
		"unknown flag":      {"--no-such-flag"},
		"unknown flag late": model(t, "--no-such-flag"),
		"self-extend":       model(t, "--grp-attn-n", "2", "--grp-attn-w", "512"),
		"no model file":     {"-m", "/no/such/file.gguf", "--port", freePort(t)},
		"no model":          {"-m", "/etc/passwd", "--port", freePort(t)},
		"port in use":       model(t, "--port", port),
		"socket in the way": model(t, "--host", socket),
		"no host":           model(t, "--host", "256.0.0.1", "--port", freePort(t)),
		"no key file":       model(t, "--api-key-file", "/no/such/file"),
		"no certificate":    model(t, "--ssl-key-file", "/no/such/file", "--ssl-cert-file", "/no/such/file"),
		"no slot folder":    model(t, "--slot-save-path", "/no/such/folder", "--port", freePort(t)),
	} {
		t.Run(name, func(t *testing.T) {
			want := stock(t).start(t, args...)
			w := want.end()
			got := standing(t).start(t, args...)
			if g := got.end(); w != g {
				t.Errorf("it ends with %v, the engine with %v", g, w)
			}
			wantOut, wantErr := said(want)
			gotOut, gotErr := said(got)
			if gotOut != wantOut {
				t.Errorf("standard output\n%s\nthe engine's\n%s", gotOut, wantOut)
			}
			// The engine does not always write its last lines before it exits.
			if !strings.HasPrefix(wantErr, gotErr) && !strings.HasPrefix(gotErr, wantErr) {
				t.Errorf("standard error\n%s\nthe engine's\n%s", gotErr, wantErr)
			}
		})
	}
}

func TestEndsBySignals(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1} {
		t.Run(s.String(), func(t *testing.T) {
			want, got := stock(t).serve(t, model(t)...), standing(t, "OLLAMOON_STORE=none").serve(t, model(t)...)
			child := got.status().Engine.PID
			want.signal(s)
			got.signal(s)
			if w, g := want.end(), got.end(); w != g {
				t.Errorf("it ends with %v, the engine with %v", g, w)
			}
			gone(t, child)
		})
	}
}

// Started by nohup, it goes on after a hangup, and so does the engine.
func TestIgnoresWhatItWasToldTo(t *testing.T) {
	p := standing(t, "OLLAMOON_STORE=none")
	args := append([]string{"-c", `trap "" HUP; exec "$@"`, "sh", p.path}, model(t)...)
	p.path = "/bin/sh"
	r := p.serve(t, args...)
	child := r.status().Engine.PID
	r.signal(syscall.SIGHUP)
	if err := syscall.Kill(child, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond) // for a signal to have its effect
	if got := r.complete("one two three").Content; got == "" {
		t.Error("it does not answer")
	}
	r.signal(syscall.SIGTERM)
	if e := r.end(); e != (Exit{}) {
		t.Errorf("it ends with %v", e)
	}
}

// When the engine dies, so does the stand-in, of the same.
func TestDiesAsTheEngineDoes(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGABRT} {
		t.Run(s.String(), func(t *testing.T) {
			r := standing(t, "OLLAMOON_STORE=none").serve(t, model(t)...)
			if err := syscall.Kill(r.status().Engine.PID, s); err != nil {
				t.Fatal(err)
			}
			if got := r.end(); got.Signal != s {
				t.Errorf("it ends with %v", got)
			}
			if strings.Contains(r.errs.String(), "goroutine") {
				t.Error("it tells of goroutines")
			}
		})
	}
}

func TestLeavesNoChildWhenKilled(t *testing.T) {
	r := standing(t, "OLLAMOON_STORE=memory:").serve(t, model(t)...)
	child := r.status().Engine.PID
	r.signal(syscall.SIGKILL)
	r.end()
	gone(t, child)
}

// Until it is ready it answers as a loading engine; what it answers then is what
// the engine answers.
func TestAnswersAsTheEngineDoes(t *testing.T) {
	want, got := stock(t).start(t, model(t, "--port", freePort(t))...), standing(t, "OLLAMOON_STORE=memory:").start(t, model(t, "--port", freePort(t))...)
	for _, r := range []*running{want, got} {
		r.address = "http://127.0.0.1:" + r.cmd.Args[len(r.cmd.Args)-1]
	}
	if g := got.ready(); g != fmt.Sprint(http.StatusServiceUnavailable, " ", loadingAnswer) {
		t.Errorf("loading it answers %q", g)
	}
	if w := want.ready(); w != "" && w != fmt.Sprint(http.StatusServiceUnavailable, " ", loadingAnswer) {
		t.Errorf("loading the engine answers %q", w)
	}
	if !got.status().Sharing {
		t.Errorf("nothing is shared: %+v", got.status())
	}
	for _, q := range []struct{ method, path, body string }{
		{http.MethodGet, "/health", ""},
		{http.MethodGet, "/v1/health", ""},
		{http.MethodGet, "/nothing", ""},
		{http.MethodGet, "/", ""},
		{http.MethodOptions, "/completion", ""},
		{http.MethodGet, "/lora-adapters", ""},
		{http.MethodPost, "/tokenize", `{"content":"a b c"}`},
		{http.MethodPost, "/completion", `{`},
		{http.MethodPost, "/completion", `{"prompt":"a","n_predict":"x"}`},
		{http.MethodPost, "/v1/embeddings", `{"input":"a"}`},
		{http.MethodPost, "/slots/0?action=save", `{"filename":"x"}`},
		{http.MethodPost, "/slots/0?action=restore", `{"filename":"x"}`},
		{http.MethodPost, "/slots/0?action=erase", ``},
		{http.MethodPost, "/slots/9?action=dance", ``},
		{http.MethodPost, "/slots", ``},
	} {
		ws, wb, wh := want.ask(q.method, q.path, q.body)
		gs, gb, gh := got.ask(q.method, q.path, q.body)
		if ws != gs || wb != gb {
			t.Errorf("%s %s: %d %s\nthe engine: %d %s", q.method, q.path, gs, gb, ws, wb)
		}
		for _, h := range []http.Header{wh, gh} {
			h.Del("Keep-Alive") // of the connection, not of the answer
		}
		for name := range wh {
			if gh.Get(name) != wh.Get(name) {
				t.Errorf("%s %s: %s is %q, the engine's is %q", q.method, q.path, name, gh.Values(name), wh.Values(name))
			}
		}
		for name := range gh {
			if wh.Values(name) == nil {
				t.Errorf("%s %s: the engine sends no %s", q.method, q.path, name)
			}
		}
	}
	// A stream too, byte for byte but for times.
	times := regexp.MustCompile(`"[a-z_]*(_ms|_second|_per_token|_token_ms)":[0-9.e-]+|"created":\d+|"id":"[^"]*"`)
	stream := `{"messages":[{"role":"user","content":"Say a word."}],"stream":true,"max_tokens":4,"temperature":0}`
	_, wb, _ := want.ask(http.MethodPost, "/v1/chat/completions", stream)
	_, gb, _ := got.ask(http.MethodPost, "/v1/chat/completions", stream)
	if w, g := times.ReplaceAllString(wb, ""), times.ReplaceAllString(gb, ""); w != g || !strings.Contains(g, "[DONE]") {
		t.Errorf("a stream is\n%s\nthe engine's is\n%s", g, w)
	}
}

// The log names the public address, for those who ask for any port.
func TestAnyPort(t *testing.T) {
	r := standing(t, "OLLAMOON_STORE=none").start(t, model(t, "--port", "0")...)
	listening := regexp.MustCompile(`listening on (http://127\.0\.0\.1:\d+)\n`)
	for deadline := time.Now().Add(wait); r.address == "" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if m := listening.FindStringSubmatch(r.errs.String()); m != nil {
			r.address = m[1]
		}
	}
	r.ready()
	if strings.Contains(r.errs.String(), ".sock") {
		t.Error("the log names the engine's socket")
	}
}

// A run without a model, as Ollama uses it to find devices, is the engine's own.
func TestBecomesTheEngineWithoutAModel(t *testing.T) {
	r := standing(t).serve(t, "--host", "127.0.0.1", "--no-webui", "--offline")
	if exe, err := os.Readlink("/proc/" + itoa(r.cmd.Process.Pid) + "/exe"); err != nil || exe != resolved(t, installed(t).Binary) {
		t.Errorf("it runs %s, %v", exe, err)
	}
}

func resolved(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRefusesSettings(t *testing.T) {
	for name, c := range map[string]struct {
		p    program
		args []string
		says string
	}{
		"unknown":   {standing(t), []string{"--ollamoon-stor=none"}, "no such setting"},
		"no binary": {standing(t, "OLLAMOON_BINARY=/no/such/file"), nil, "no real llama-server"},
		"itself":    {standing(t, "OLLAMOON_BINARY="+standing(t).path), nil, "is this program"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.p.start(t, c.args...)
			if e := r.end(); e.Code != 1 || !strings.Contains(r.errs.String(), c.says) {
				t.Errorf("%v, %s", e, r.errs)
			}
		})
	}
}
