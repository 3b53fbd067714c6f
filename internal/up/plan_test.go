package up

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// options make a cluster that differs from others by what change does.
func options(t *testing.T, change func(*Options)) Options {
	t.Helper()
	model := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(model, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{
		Program: "/bin/ollamoon", Binary: "/bin/llama-server", Model: model, Prefill: 1, Decode: 2, Threads: 8, Context: 4096,
		Store: Mooncake, SegmentBytes: 1 << 30, Host: "127.0.0.1", Port: 8080,
	}
	if change != nil {
		change(&o)
	}
	return o
}

var site = Site{
	Store: "mooncake://127.0.0.1:50051", Ports: []int{1001, 1002, 1003, 1004, 1005, 1006},
	SecretFile: "/run/secret", SealKeyFile: "/run/seal.key", AdminTokenFile: "/run/admin.token",
}

func TestPlan(t *testing.T) {
	o := options(t, func(o *Options) { o.Args = []string{"-ngl", "99"} })
	worker := func(threads, port, role, prefill string, first ...string) []string {
		return slices.Concat(
			[]string{"llama-server", "-m", o.Model, "-c", "4096", "-t", threads, "-tb", threads}, first, []string{
				"-ngl", "99", "--host", "127.0.0.1", "--port", port,
				"--ollamoon-binary", "/bin/llama-server", "--ollamoon-store", site.Store, "--ollamoon-role", role,
				"--ollamoon-prefill=" + prefill, "--ollamoon-secret-file", "/run/secret", "--ollamoon-tenants", "one",
				"--ollamoon-seal-key-file", "/run/seal.key",
			})
	}
	want := []Child{
		{Name: "prefill-1", Kind: KindPrefill, Address: "127.0.0.1:1001", Threads: 3, Args: worker("3", "1001", "prefill", "", "-np", "1")},
		{Name: "decode-1", Kind: KindDecode, Address: "127.0.0.1:1002", Threads: 3, Args: worker("3", "1002", "decode", "http://127.0.0.1:1001")},
		{Name: "decode-2", Kind: KindDecode, Address: "127.0.0.1:1003", Threads: 2, Args: worker("2", "1003", "decode", "http://127.0.0.1:1001")},
		{Name: "router", Kind: KindRouter, Address: "127.0.0.1:1004", Args: []string{
			"route", "--host", "127.0.0.1", "--port", "1004", "--secret-file", "/run/secret", "--drain", "30s",
			"decode-1=http://127.0.0.1:1002", "decode-2=http://127.0.0.1:1003",
		}},
	}
	got := Plan(o, site)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("child %d:\n%+v, want\n%+v", i, got, want)
		}
	}
}

func TestPlanWithKeys(t *testing.T) {
	children := Plan(options(t, func(o *Options) { o.APIKeys, o.Host = "/keys", "0.0.0.0" }), site)
	router := children[len(children)-1]
	if args := strings.Join(router.Args, " "); !strings.Contains(args, "--api-keys /keys --admin-token-file /run/admin.token") {
		t.Error(args)
	}
	if router.Address != "0.0.0.0:1004" || router.URL() != "http://127.0.0.1:1004" {
		t.Errorf("%s, from here %s", router.Address, router.URL())
	}
	for _, c := range children[:3] {
		if args := strings.Join(c.Args, " "); !strings.Contains(args, "--ollamoon-tenants router") || !strings.Contains(args, "--host 127.0.0.1") {
			t.Errorf("%s: %s", c.Name, args)
		}
	}
}

func TestPlanWithoutPrefill(t *testing.T) {
	at := site
	at.SealKeyFile = ""
	children := Plan(options(t, func(o *Options) { o.Prefill, o.Decode = 0, 1 }), at)
	if len(children) != 2 || children[0].Threads != 8 {
		t.Fatalf("%+v", children)
	}
	args := strings.Join(children[0].Args, " ")
	if !strings.Contains(args, "--ollamoon-role mixed") || strings.Contains(args, "seal") {
		t.Error(args)
	}
}

// Engines have as many threads as there are, unless each would not have one.
func TestThreads(t *testing.T) {
	for threads := 1; threads <= 9; threads++ {
		for engines := 1; engines <= 4; engines++ {
			sum, least := 0, threads
			for _, n := range divide(threads, engines) {
				sum, least = sum+n, min(least, n)
			}
			if sum != max(threads, engines) || least != max(1, threads/engines) {
				t.Errorf("%d threads of %d engines: %v", threads, engines, divide(threads, engines))
			}
		}
	}
}

func TestCounts(t *testing.T) {
	for _, c := range []struct {
		threads, prefill, decode int // asked for
		wantPrefill, wantDecode  int
		crowded                  bool
	}{
		{1, Counted, Counted, 0, 1, false},
		{2, Counted, Counted, 1, 1, false},
		{3, Counted, Counted, 1, 2, false},
		{64, Counted, Counted, 1, 2, false},
		{2, Counted, 2, 0, 2, false},
		{2, 1, Counted, 1, 1, false},
		{2, 2, Counted, 2, 1, true},
		{2, 1, 2, 1, 2, true},
		{8, 0, 3, 0, 3, false},
	} {
		o := Options{Threads: c.threads, Prefill: c.prefill, Decode: c.decode}
		if prefill, decode := o.counts(); prefill != c.wantPrefill || decode != c.wantDecode || o.Crowded() != c.crowded {
			t.Errorf("%+v: %d and %d, crowded %t", c, prefill, decode, o.Crowded())
		}
	}
}

func TestOptionsThatMakeNoCluster(t *testing.T) {
	if err := options(t, nil).check(); err != nil {
		t.Error(err)
	}
	if err := options(t, func(o *Options) { o.Store, o.SealKeyFile = "file:/x", "/key" }).check(); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]func(*Options){
		"--decode is 1 or more":      func(o *Options) { o.Decode = 0 },
		"--prefill is 0 or more":     func(o *Options) { o.Prefill = -2 },
		"--threads is 1 or more":     func(o *Options) { o.Threads = 0 },
		"--ctx is 0":                 func(o *Options) { o.Context = -1 },
		"--port is one up to":        func(o *Options) { o.Port = 70000 },
		"--host is an IP address":    func(o *Options) { o.Host = "localhost" },
		"--model is a GGUF file":     func(o *Options) { o.Model = "/no/such" },
		"--segment is 64MiB or more": func(o *Options) { o.SegmentBytes = 1 },
		"leave --seal-key-file out":  func(o *Options) { o.SealKeyFile = "/key" },
		`by the store "memory:"`:     func(o *Options) { o.Store = "memory:" },
		`by the store "none"`:        func(o *Options) { o.Store = "none" },
		"--store: store/open":        func(o *Options) { o.Store = "redis://x" },
		"-t after --; give --thread": func(o *Options) { o.Args = []string{"-t", "4"} },
		"--port after --; give":      func(o *Options) { o.Args = []string{"--port", "1"} },
		"--ollamoon-role after --; w": func(o *Options) {
			o.Args = []string{"--ollamoon-role=mixed"}
		},
	} {
		if err := options(t, change).check(); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestStagesAreNamed(t *testing.T) {
	for want, children := range map[string][]Child{
		"a prefill worker with 1 thread":         {{Kind: KindPrefill, Threads: 1}},
		"a decode worker with 4 threads":         {{Kind: KindDecode, Threads: 4}},
		"2 decode workers, with 1 and 2 threads": {{Kind: KindDecode, Threads: 2}, {Kind: KindDecode, Threads: 1}},
		"3 decode workers, each with 1 thread":   slices.Repeat([]Child{{Kind: KindDecode, Threads: 1}}, 3),
		"2 decode workers, each with 3 threads":  slices.Repeat([]Child{{Kind: KindDecode, Threads: 3}}, 2),
		"the router":                             {{Kind: KindRouter}},
	} {
		if got := stage(children); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
