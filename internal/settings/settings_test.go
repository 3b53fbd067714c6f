package settings

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ollamoon/connector"
)

// home is a folder of settings files of its own for a test.
func home(t *testing.T, yaml string) (path string) {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", folder)
	t.Setenv("HOME", folder)
	user, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(user, "ollamoon", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if yaml != "" {
		if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

var defaults = Settings{Store: "file:", PageTokens: 256, Tenants: OneTenant, Deadline: 10 * time.Second, LogLevel: slog.LevelWarn, LogFormat: "text"}

func TestDefaults(t *testing.T) {
	home(t, "")
	s, rest, err := Load([]string{"-m", "x"}, []string{"PATH=/bin"}, "")
	if err != nil || !reflect.DeepEqual(s, defaults) || !reflect.DeepEqual(rest, []string{"-m", "x"}) {
		t.Errorf("%+v, %q, %v", s, rest, err)
	}
}

func TestStrength(t *testing.T) {
	home(t, "store: 'file:/a'\nrole: decode\ndeadline: 3s\nexact: true\ntenant: file\npage-tokens: 512\nlog-level: debug\n")
	s, rest, err := Load(
		[]string{"--ollamoon-store", "none", "-m", "--ollamoon-exact=false", "x", "--ollamoon-store=memory:"},
		[]string{"OLLAMOON_STORE=file:/b", "OLLAMOON_TENANT=variable", "OLLAMOON_PAGE_TOKENS=128", "OLLAMOON_SEAL_KEY_FILE=/k", "OLLAMOON_PORT=tcp://1.2.3.4:5"}, "",
	)
	want := Settings{
		Store: "memory:", Role: connector.Decode, Deadline: 3 * time.Second, PageTokens: 128, Tenant: "variable", Tenants: OneTenant, SealKeyFile: "/k",
		LogLevel: slog.LevelDebug, LogFormat: "text",
	}
	if err != nil || !reflect.DeepEqual(s, want) || !reflect.DeepEqual(rest, []string{"-m", "x"}) {
		t.Errorf("%+v, %q, %v", s, rest, err)
	}
}

func TestNamedFile(t *testing.T) {
	home(t, "tenant: user\n")
	named := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(named, []byte("log-format: json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string][2][]string{
		"variable": {nil, {"OLLAMOON_CONFIG=" + named}},
		"flag":     {{"--ollamoon-config", named}, {"OLLAMOON_CONFIG=/no/such/file"}},
	} {
		s, rest, err := Load(in[0], in[1], "/no/such/file")
		if err != nil || s.LogFormat != "json" || s.Tenant != "" || len(rest) != 0 {
			t.Errorf("by %s: %+v, %q, %v", name, s, rest, err)
		}
	}
	if _, _, err := Load([]string{"--ollamoon-config=/no/such/file"}, nil, ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestFileBesideTheProgram(t *testing.T) {
	home(t, "tenant: user\nstore: 'file:/user'\n")
	beside := filepath.Join(t.TempDir(), FileName)
	if s, _, err := Load(nil, nil, beside); err != nil || s.Tenant != "user" {
		t.Errorf("without it: %+v, %v", s, err)
	}
	if err := os.WriteFile(beside, []byte("tenant: beside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, err := Load(nil, nil, beside)
	if err != nil || s.Tenant != "beside" || s.Store != "file:/user" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := os.WriteFile(beside, []byte("tenannt: beside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(nil, nil, beside); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), beside) {
		t.Errorf("%v", err)
	}
}

// What is said to be a setting's words, it takes.
func TestWords(t *testing.T) {
	var s Settings
	for _, name := range []string{"role", "log-format", "log-level"} {
		if len(Words(name)) < 2 {
			t.Errorf("%s has the words %v", name, Words(name))
		}
		for _, word := range Words(name) {
			if err := s.Flags().Set(name, word); err != nil {
				t.Errorf("%s %s: %v", name, word, err)
			}
		}
	}
	if Words("store") != nil {
		t.Error("a store is no matter of words")
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		env  []string
		yaml string
		want error
		says string
	}{
		"flag":              {args: []string{"--ollamoon-stor", "x"}, want: ErrUnknown, says: "there are binary, store,"},
		"key":               {yaml: "exact: true\nstor: x\n", want: ErrUnknown, says: "config.yaml, line 2: \"stor\""},
		"value of a flag":   {args: []string{"--ollamoon-role", "x"}, want: ErrValue, says: "--ollamoon-role: "},
		"no value":          {args: []string{"--ollamoon-role"}, want: ErrValue, says: "--ollamoon-role"},
		"value of variable": {env: []string{"OLLAMOON_DEADLINE=soon"}, want: ErrValue, says: "OLLAMOON_DEADLINE: "},
		"page size":         {args: []string{"--ollamoon-page-tokens", "100"}, want: ErrValue, says: "100; give a multiple of 64 from 64 to 4096"},
		"page size in file": {yaml: "page-tokens: many\n", want: ErrValue, says: "\"many\" is no number"},
		"value in a file":   {yaml: "\n\nlog-format: xml\n", want: ErrValue, says: "config.yaml, line 3: "},
		"list in a file":    {yaml: "store: [a]\n", want: ErrValue, says: "no single value"},
		"no YAML":           {yaml: "a: b: c\n", want: ErrValue, says: "config.yaml"},
		"help":              {args: []string{"-m", "x", "--ollamoon-help"}, want: ErrHelp},
	} {
		t.Run(name, func(t *testing.T) {
			home(t, c.yaml)
			_, _, err := Load(c.args, c.env, "")
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestUsageListsAll(t *testing.T) {
	usage := Usage()
	for _, want := range []string{
		"--ollamoon-store string", `(default "file:")`, "--ollamoon-exact ", `(default 10s)`, "--ollamoon-page-tokens int", `(default 256)`, "--ollamoon-log-level", "--ollamoon-config", "/etc/ollamoon/config.yaml",
	} {
		if !strings.Contains(usage, want) {
			t.Errorf("no %q in\n%s", want, usage)
		}
	}
}

func TestListsAndTenants(t *testing.T) {
	home(t, "prefill: [http://a:1]\ntenants: keys\n")
	s, _, err := Load(
		[]string{"--ollamoon-prefill", "http://b:1,http://c:1", "--ollamoon-shared-prefix=/p"}, []string{"OLLAMOON_TENANTS=router"}, "",
	)
	if err != nil || !reflect.DeepEqual(s.Prefill, []string{"http://b:1", "http://c:1"}) || s.Tenants != RouterTenants || len(s.SharedPrefixes) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, _, err := Load([]string{"--ollamoon-tenants", "all"}, nil, ""); !errors.Is(err, ErrValue) {
		t.Errorf("%v", err)
	}
}
