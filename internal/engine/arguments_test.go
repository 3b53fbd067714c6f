package engine

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestPassthrough(t *testing.T) {
	for name, c := range map[string]struct {
		args, env []string
		want      bool
	}{
		"model":            {args: []string{"-m", "x"}},
		"model by env":     {env: []string{"LLAMA_ARG_MODEL=x"}},
		"fetched model":    {args: []string{"-hf", "x/y"}},
		"no model":         {args: []string{"--port", "1", "--offline"}, want: true},
		"devices":          {args: []string{"--list-devices", "--offline", "--verbose"}, want: true},
		"underscores":      {args: []string{"-m", "x", "--list_devices"}, want: true},
		"help":             {args: []string{"-m", "x", "-h"}, want: true},
		"embeddings":       {args: []string{"-m", "x", "--embeddings"}, want: true},
		"by env":           {args: []string{"-m", "x"}, env: []string{"LLAMA_ARG_EMBEDDINGS=on"}, want: true},
		"not by env":       {args: []string{"-m", "x"}, env: []string{"LLAMA_ARG_RERANKING=0"}},
		"ranking":          {args: []string{"-m", "x", "--rerank"}, want: true},
		"Vertex AI's port": {args: []string{"-m", "x"}, env: []string{"AIP_MODE=PREDICTION"}, want: true},
	} {
		reason, yes := Arguments{Args: c.args, Env: c.env}.Passthrough()
		if yes != c.want || yes != (reason != "") {
			t.Errorf("%s: %t, %q", name, yes, reason)
		}
	}
}

func TestListener(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("# mine\nc\n\n d \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := Arguments{
		Args: []string{"--port", "1", "--api_prefix", "/p", "--api-key", "a,b", "--port", "2", "--reuse-port", "--api-key-file", keys},
		Env:  []string{"LLAMA_ARG_HOST=0.0.0.0", "LLAMA_ARG_PORT=3", "LLAMA_ARG_SSL_KEY_FILE=k"},
	}
	l, err := a.Listener()
	want := Listener{Host: "0.0.0.0", Port: "2", ReusePort: true, Prefix: "/p", TLSKey: "k", APIKeys: []string{"a", "b", "c", "d"}}
	if err != nil || !reflect.DeepEqual(l, want) {
		t.Errorf("%+v, %v", l, err)
	}
	if network, address := l.Network(); network != "tcp4" || address != "0.0.0.0:2" || l.TLS() {
		t.Errorf("%s %s, TLS %t", network, address, l.TLS())
	}
	if _, err := (Arguments{Args: []string{"--api-key-file", "/no/such/file"}}).Listener(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for want, l := range map[string]Listener{
		"http://127.0.0.1:9": {Host: "127.0.0.1"}, "unix:///x.sock": {Host: "/x.sock"}, "https://h:9": {Host: "h", TLSKey: "k", TLSCert: "c"},
	} {
		if got := l.URL("9"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

func TestAuthorized(t *testing.T) {
	l := Listener{APIKeys: []string{"a", "b"}}
	for want, headers := range map[bool][][2]string{
		true:  {{"Authorization", "Bearer b"}, {"Authorization", "a"}, {"X-Api-Key", "a"}},
		false: {{"Authorization", "Bearer c"}, {"X-Api-Key", ""}, {"Other", "a"}},
	} {
		for _, h := range headers {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.Header.Set(h[0], h[1])
			if got := l.Authorized(r); got != want {
				t.Errorf("%v: %t", h, got)
			}
		}
	}
	if !(Listener{}).Authorized(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)) {
		t.Error("a key is asked for where there is none")
	}
}

func TestBehind(t *testing.T) {
	a := Arguments{
		Args: []string{
			"-m", "x", "--host", "h", "--port", "1", "--api-key", "k", "--ssl-key-file", "f", "--ssl_cert_file", "f", "--reuse-port",
			"--slot-save-path", "s", "--api-prefix", "/p", "--new-flag",
		},
		Env: []string{"HOME=/h", "LLAMA_ARG_PORT=2", "LLAMA_ARG_SSL_KEY_FILE=f", "LLAMA_ARG_MODEL=y"},
	}
	want := Arguments{
		Args: []string{"-m", "x", "--api-key", "k", "--api-prefix", "/p", "--new-flag", "--host", "/e.sock", "--slot-save-path", "/slots"},
		Env:  []string{"HOME=/h", "LLAMA_ARG_MODEL=y"},
	}
	if got := a.Behind("/e.sock", "/slots"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestCacheFlags(t *testing.T) {
	a := Arguments{
		Args: []string{
			"-ctk", "q8_0", "--override-kv", "a=int:1", "--override-kv", "b=int:2", "--yarn-orig-ctx", "5", "-fa", "off", "--cpu-moe",
			"--control-vector", "v,w", "--control-vector-scaled", "x:0.5", "--control-vector-layer-range", "1", "2",
		},
		Env: []string{"LLAMA_ARG_CACHE_TYPE_V=q4_0", "LLAMA_ARG_ROPE_SCALE=2", "LLAMA_ARG_CACHE_TYPE_K=f32"},
	}
	want := CacheFlags{
		KeyType: "q8_0", ValueType: "q4_0", Overrides: []string{"a=int:1", "b=int:2"},
		RoPE:           []string{"--rope-scale 2", "--yarn-orig-ctx 5"},
		ControlVectors: []Adapter{{Path: "v"}, {Path: "w"}, {Path: "x", Scale: "0.5"}}, ControlLayers: "1-2",
		Exact: []string{"--flash-attn off", "--cpu-moe"},
	}
	if got := a.CacheFlags(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestUBatch(t *testing.T) {
	for want, args := range map[int][]string{512: nil, 128: {"-ub", "128"}, 64: {"-b", "64", "-ub", "128"}, 2048: {"--ubatch_size", "4096"}} {
		if got := (Arguments{Args: args}).UBatch(); got != want {
			t.Errorf("%v: %d", args, got)
		}
	}
}

func TestModelIsKnownBeforehand(t *testing.T) {
	if path, ok := (Arguments{Args: []string{"--model", "x"}}).Model(); !ok || path != "x" {
		t.Error(path, ok)
	}
	if path, ok := (Arguments{Args: []string{"-m", "x", "-hf", "a/b"}}).Model(); ok {
		t.Error(path)
	}
}

func TestSocketPathIsBounded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a-folder-whose-name-is-longer-than-the-path-of-a-socket-may-be-on-any-system-that-there-is")
	if _, err := Start(Config{Binary: "/bin/true", Folder: folder}); !errors.Is(err, ErrSocketPath) {
		t.Errorf("%v", err)
	}
}

func TestRemembers(t *testing.T) {
	for args, want := range map[string]int64{"": 8192 << 20, "--cache-ram 0": 0, "-cram 100": 100 << 20, "--cache-ram -1": math.MaxInt32 << 20} {
		if got := (Arguments{Args: strings.Fields(args)}).Remembers(); got != want {
			t.Errorf("%q: %d bytes, want %d", args, got, want)
		}
	}
}
