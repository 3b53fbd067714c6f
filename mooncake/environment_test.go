package mooncake

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestConfigFromEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mooncake.json")
	const file = `{"local_hostname": "localhost", "metadata_server": "http://m:8080/metadata", "global_segment_size": "3gb",
		"protocol": "TCP", "device_name": "", "master_server_address": "m:50051", "tenant_id": "team"}`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  func(string) string
		want Config
	}{
		"master alone": {environment("MOONCAKE_MASTER", "a:1"), Config{Master: "a:1", Metadata: "P2PHANDSHAKE"}},
		"all variables": {
			environment("MOONCAKE_MASTER", "a:1", "MOONCAKE_TE_META_DATA_SERVER", "http://b/metadata", "MOONCAKE_PROTOCOL", "rdma", "MOONCAKE_TENANT_ID", "t"),
			Config{Master: "a:1", Metadata: "http://b/metadata", Protocol: "rdma", Tenant: "t"},
		},
		"a file before variables": {
			environment("MOONCAKE_CONFIG_PATH", path, "MOONCAKE_MASTER", "a:1"),
			Config{Master: "m:50051", Metadata: "http://m:8080/metadata", Protocol: "tcp", Tenant: "team"},
		},
	} {
		got, err := ConfigFromEnvironment(c.env)
		if err != nil || got.Master != c.want.Master || got.Metadata != c.want.Metadata || got.Protocol != c.want.Protocol || got.Tenant != c.want.Tenant {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	if _, err := (Config{Master: "a:1", Metadata: "P2PHANDSHAKE", Protocol: "rdma"}).withDefaults(); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a protocol that is not there: %v", err)
	}
}

func TestConfigFromEnvironmentSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for want, env := range map[string]func(string) string{
		"neither MOONCAKE_CONFIG_PATH nor MOONCAKE_MASTER": environment(),
		"no such file":                     environment("MOONCAKE_CONFIG_PATH", filepath.Join(dir, "none")),
		"bad.json":                         environment("MOONCAKE_CONFIG_PATH", write("bad.json", "{")),
		"metadata_server is missing":       environment("MOONCAKE_CONFIG_PATH", write("a.json", `{"master_server_address": "a:1"}`)),
		"master_server_address is missing": environment("MOONCAKE_CONFIG_PATH", write("b.json", `{"metadata_server": "P2PHANDSHAKE"}`)),
	} {
		if _, err := ConfigFromEnvironment(env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
