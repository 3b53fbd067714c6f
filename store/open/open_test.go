package open

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ollamoon/internal/cluster"
	client "ollamoon/mooncake"
	"ollamoon/store"
	"ollamoon/store/file"
	"ollamoon/store/memory"
	"ollamoon/store/mooncake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, rawURL string) store.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Store(ctx, rawURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// roundTrip puts an object and reads it.
func roundTrip(t *testing.T, s store.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.BatchPut(ctx, []store.Item{{Key: "k", Bytes: []byte("object")}})[0]; err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 6)
	if err := s.BatchGet(ctx, []store.Item{{Key: "k", Bytes: b}})[0]; err != nil || string(b) != "object" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestFile(t *testing.T) {
	base := t.TempDir()
	t.Setenv("HOME", filepath.Join(base, "home"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(base, "cache"))
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	for rawURL, dir := range map[string]string{
		"file:" + base + "/a":                base + "/a",
		"file://" + base + "/b":              base + "/b",
		"file:" + base + "/with #%20 @:sign": base + "/with #%20 @:sign",
		"file:" + base + "/c?budget=20GiB":   base + "/c",
		"file:~/pages":                       base + "/home/pages",
		"file:":                              filepath.Join(cache, "ollamoon", "pages"),
		"file:" + base + "/x/../nested":      base + "/nested",
	} {
		if got, ok, err := Folder(rawURL); !ok || err != nil || filepath.Clean(got) != filepath.Clean(dir) {
			t.Errorf("%s: the folder %s, %v, %v", rawURL, got, ok, err)
		}
		if err := Check(rawURL); err != nil {
			t.Error(err)
		}
		s := open(t, rawURL)
		if _, ok := s.(*file.Store); !ok {
			t.Errorf("%s: a %T", rawURL, s)
		}
		roundTrip(t, s)
		if _, err := os.Stat(filepath.Join(dir, "usage")); err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
	if _, err := Store(t.Context(), "file:/dev/null", nil); !errors.Is(err, file.ErrFolder) {
		t.Errorf("a folder that cannot be used: %v", err)
	}
}

func TestMemory(t *testing.T) {
	for rawURL, budget := range map[string]int64{
		"memory:": DefaultMemoryBytes, "memory:?budget=1000": 1000, "memory:?budget=2KiB": 2048, "memory:?budget=1.5kB": 1500,
	} {
		if err := Check(rawURL); err != nil {
			t.Error(err)
		}
		s, ok := open(t, rawURL).(*memory.Store)
		if !ok {
			t.Fatalf("%s: not in memory", rawURL)
		}
		roundTrip(t, s)
		if budget > 1<<20 {
			continue
		}
		for size, want := range map[int64]error{budget: nil, budget + 1: store.ErrFull} {
			err := s.BatchPut(t.Context(), []store.Item{{Key: "large", Bytes: make([]byte, size)}})[0]
			if !errors.Is(err, want) {
				t.Errorf("%s: putting %d bytes: %v", rawURL, size, err)
			}
			if err := s.Discard(t.Context(), "large"); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestMooncake(t *testing.T) {
	programs, err := cluster.Programs(cluster.Version)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Programs: programs, Metadata: cluster.MetadataHTTP})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Setenv("MOONCAKE_CONFIG_PATH", "")
	t.Setenv("MOONCAKE_MASTER", c.Master())
	t.Setenv("MOONCAKE_TE_META_DATA_SERVER", c.Metadata())
	if _, ok, err := Mooncake("file:/x"); ok || err != nil {
		t.Errorf("a folder: %v, %v", ok, err)
	}
	for i, rawURL := range []string{
		"mooncake://" + c.Master() + "?metadata=" + c.Metadata() + "&shared_memory=off&tenant=default&replicas=1",
		"mooncake:",
	} {
		if config, ok, err := Mooncake(rawURL); !ok || err != nil || config.Master != c.Master() || config.Metadata != c.Metadata() {
			t.Errorf("%s: %+v, %v, %v", rawURL, config, ok, err)
		}
		s := open(t, rawURL)
		m, ok := s.(*mooncake.Store)
		if !ok {
			t.Fatalf("%s: a %T", rawURL, s)
		}
		if i == 0 {
			roundTrip(t, s)
			if m.Client().Plane() != "tcp" {
				t.Errorf("%s: objects go over %s", rawURL, m.Client().Plane())
			}
			continue
		}
		if present, err := s.BatchExist(ctx, []string{"k"}); err != nil || !present[0] {
			t.Errorf("%s: what was put is not there: %v, %v", rawURL, present, err)
		}
	}
}

func TestMooncakeConfig(t *testing.T) {
	for rawURL, want := range map[string]client.Config{
		"//h:1":                     {Master: "h:1", Metadata: "P2PHANDSHAKE"},
		"//h:1/":                    {Master: "h:1", Metadata: "P2PHANDSHAKE"},
		"//[::1]:1":                 {Master: "[::1]:1", Metadata: "P2PHANDSHAKE"},
		"//h:1?shared_memory=12345": {Master: "h:1", Metadata: "P2PHANDSHAKE", SharedMemory: "12345"},
		"//h:1?metadata=http://m:2/metadata&tenant=a%20b": {Master: "h:1", Metadata: "http://m:2/metadata", Tenant: "a b"},
		"//h:1?replicas=2": {Master: "h:1", Metadata: "P2PHANDSHAKE", Replicate: client.ReplicateConfig{Replicas: 2}},
	} {
		where, query, _ := strings.Cut(rawURL, "?")
		got, err := mooncakeConfig(where, query)
		if err != nil || got.Master != want.Master || got.Metadata != want.Metadata || got.Tenant != want.Tenant ||
			got.SharedMemory != want.SharedMemory || got.Replicate.Replicas != want.Replicate.Replicas {
			t.Errorf("%s: %+v, %v", rawURL, got, err)
		}
	}
}

func TestNone(t *testing.T) {
	s := open(t, None)
	items := []store.Item{{Key: "k", Bytes: []byte("object")}}
	if err := s.BatchPut(t.Context(), items)[0]; !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("putting: %v", err)
	}
	if err := s.BatchGet(t.Context(), items)[0]; !errors.Is(err, store.ErrNotFound) {
		t.Errorf("reading: %v", err)
	}
	if present, err := s.BatchExist(t.Context(), []string{"k"}); err != nil || len(present) != 1 || present[0] {
		t.Errorf("asking: %v, %v", present, err)
	}
	if err := s.Discard(t.Context(), "k"); err != nil {
		t.Errorf("discarding: %v", err)
	}
	b, err := s.Alloc(3)
	if err != nil || len(b.Bytes()) != 3 {
		t.Errorf("allocating: %v", err)
	}
}

// A URL that names no store is refused with what is wrong and what would do.
func TestURLsThatNameNoStore(t *testing.T) {
	for rawURL, says := range map[string]string{
		"":                              "none of file:",
		"file":                          "none of file:",
		"/var/cache":                    "none of file:",
		"redis://h:1":                   "none of file:",
		"None":                          "none of file:",
		"none:":                         "none of file:",
		"file://host/folder":            "on this machine",
		"file:/x?size=3":                `no parameter "size"; there are budget`,
		"file:/x?budget=many":           `not "many"`,
		"file:/x?budget=0":              `not "0"`,
		"file:/x?budget=-1":             `not "-1"`,
		"file:/x?budget=99999999999TiB": "such as 20GiB",
		"file:/x?budget=1&budget=2":     "2 times",
		"memory:x":                      "not followed by a name",
		"memory:?budget=%zz":            "cannot be read",
		"mooncake:h:1":                  "mooncake://HOST:PORT",
		"mooncake:///":                  "mooncake://HOST:PORT",
		"mooncake://h:1/x":              "mooncake://HOST:PORT",
		"mooncake:?tenant=x":            "mooncake://HOST:PORT",
		"mooncake://h:1?replicas=none":  "from 1",
		"mooncake://h:1?replicas=0":     "from 1",
		"mooncake://h:1?protocol=rdma":  `no parameter "protocol"`,
	} {
		s, err := Store(t.Context(), rawURL, nil)
		if err := Check(rawURL); !errors.Is(err, ErrURL) {
			t.Errorf("%s: checked: %v", rawURL, err)
		}
		if !errors.Is(err, ErrURL) || s != nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "memory:[?budget") {
			t.Errorf("%q: %v", rawURL, err)
		}
	}
	_, err := Store(t.Context(), "mooncake://127.0.0.1:1?metadata=etcd://h", nil)
	if !errors.Is(err, client.ErrUnsupported) {
		t.Errorf("metadata that cannot work: %v", err)
	}
	_, err = Store(t.Context(), "mooncake://127.0.0.1:1", nil)
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a master that is not there: %v", err)
	}
	t.Setenv("MOONCAKE_CONFIG_PATH", "")
	t.Setenv("MOONCAKE_MASTER", "")
	if _, err := Store(t.Context(), "mooncake:", nil); !errors.Is(err, client.ErrArgument) || !strings.Contains(err.Error(), "MOONCAKE_MASTER") {
		t.Errorf("no variables: %v", err)
	}
}
