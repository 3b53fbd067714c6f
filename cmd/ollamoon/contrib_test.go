package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ollamoon/internal/cluster"
	"ollamoon/internal/metrics"
	"ollamoon/internal/router"
	"ollamoon/internal/settings"
)

// units are the service files.
func units(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("../../contrib/systemd/*.service")
	if err != nil || len(paths) != 5 {
		t.Fatal(paths, err)
	}
	found := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(path)] = string(text)
	}
	return found
}

// lines returns the settings of a unit by their names; a line that ends in a
// backslash goes on.
func lines(t *testing.T, unit string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(unit, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || slices.Contains([]string{"[Unit]", "[Service]", "[Install]"}, line) {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Errorf("no setting: %s", line)
		}
		found[name] = append(found[name], value)
	}
	return found
}

// What the services start has the flags that it is started with, and each is shut
// in.
func TestUnits(t *testing.T) {
	programs, err := cluster.Programs(cluster.Version)
	if err != nil {
		t.Fatal(err)
	}
	variables := regexp.MustCompile(`OLLAMOON_[A-Z_]+`)
	for name, text := range units(t) {
		set := lines(t, text)
		for _, hardening := range []string{"DynamicUser=yes", "NoNewPrivileges=yes", "CapabilityBoundingSet=", "ProtectSystem=strict", "ProtectHome=yes", "SystemCallFilter=@system-service"} {
			if key, value, _ := strings.Cut(hardening, "="); !slices.Equal(set[key], []string{value}) {
				t.Errorf("%s: not %s", name, hardening)
			}
		}
		if len(set["ExecStart"]) != 1 {
			t.Fatalf("%s starts %q", name, set["ExecStart"])
		}
		command := strings.Fields(set["ExecStart"][0])
		var known func(flag string) bool
		switch program := filepath.Base(command[0]); {
		case strings.HasPrefix(program, "mooncake_"):
			out, _ := exec.CommandContext(t.Context(), filepath.Join(programs, program), "--help").CombinedOutput() //nolint:gosec // Mooncake's; it ends with 1
			known = func(flag string) bool { return strings.Contains(string(out), "\n    -"+flag+" (") }
		case command[1] == "route":
			route, _, err := newRootCommand().Find([]string{"route"})
			if err != nil {
				t.Fatal(err)
			}
			known = func(flag string) bool { return route.Flags().Lookup(flag) != nil }
		default:
			known = func(flag string) bool {
				return slices.Contains([]string{"host", "port"}, flag) || new(settings.Settings).Flags().Lookup(strings.TrimPrefix(flag, "ollamoon-")) != nil
			}
		}
		for _, word := range command[1:] {
			flag, isFlag := strings.CutPrefix(word, "--")
			flag, _, _ = strings.Cut(flag, "=")
			if isFlag && flag != "logtostderr" && !known(flag) {
				t.Errorf("%s: %s has no flag --%s", name, command[0], flag)
			}
		}
		for _, variable := range variables.FindAllString(text, -1) {
			setting := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "OLLAMOON_"), "_", "-"))
			if new(settings.Settings).Flags().Lookup(setting) == nil {
				t.Errorf("%s: no setting is called %s", name, variable)
			}
		}
	}
}

// Where systemd is, it finds nothing wrong with the services. Their programs need
// not be installed: it looks at copies that name another.
func TestSystemdVerifies(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd is not here; TestUnits reads the services")
		return
	}
	program := regexp.MustCompile(`(?m)^ExecStart=\S+`)
	folder := t.TempDir()
	args := []string{"verify", "--man=no"}
	for name, text := range units(t) {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(program.ReplaceAllString(text, "ExecStart=/bin/true")), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput() //nolint:gosec // systemd's
	if err != nil || strings.Contains(string(out), folder) {
		t.Errorf("%v: %s", err, out)
	}
}

// served is what workers, the router and Mooncake's master serve as metrics.
func served(t *testing.T) string {
	t.Helper()
	config := router.NewConfig(router.Llama)
	config.AdminToken = "a token"
	rt, err := router.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var all strings.Builder
	for _, handler := range []http.Handler{rt, metrics.New(func() metrics.Snapshot { return metrics.Snapshot{} }).Handler()} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ollamoon/metrics", http.NoBody)
		request.Header.Set("Authorization", "Bearer "+config.AdminToken)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		all.WriteString(answer.Body.String())
	}
	store, err := cluster.Start(t.Context(), cluster.Config{Metadata: cluster.MetadataP2P})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	text, err := store.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all.String() + string(text)
}

// Alerts are on metrics that there are, with values of labels that there are, and
// the document says what to do about each.
func TestAlerts(t *testing.T) {
	data, err := os.ReadFile("../../contrib/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(data, &file); err != nil || len(file.Groups) == 0 {
		t.Fatal(err)
	}
	document, text := document(t), served(t)
	series := regexp.MustCompile(`\b((?:ollamoon|master)_\w+)(?:\{(\w+)=~?"([^"]*)"\})?`)
	// Of workers of a router there is nothing before there are workers.
	later := regexp.MustCompile(`^ollamoon_router_worker_`)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			found := series.FindAllStringSubmatch(rule.Expr, -1)
			if rule.Annotations["summary"] == "" || rule.Labels["severity"] == "" || len(found) == 0 {
				t.Errorf("%s says too little", rule.Alert)
			}
			if !strings.Contains(document, "`"+rule.Alert+"`") {
				t.Errorf("docs/machines.md does not have %s", rule.Alert)
			}
			for _, match := range found {
				if later.MatchString(match[1]) {
					continue
				}
				for _, value := range strings.Split(match[3], "|") {
					pattern := `(?m)^` + match[1] + `[ {]`
					if match[2] != "" {
						pattern = `(?m)^` + match[1] + `\{.*` + match[2] + `="` + value + `"`
					}
					if !regexp.MustCompile(pattern).MatchString(text) {
						t.Errorf("%s: nothing serves %s", rule.Alert, match[0])
					}
				}
			}
		}
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", "../../contrib/prometheus/alerts.yml").CombinedOutput(); err != nil { //nolint:gosec // Prometheus'
			t.Errorf("%v: %s", err, out)
		}
	}
}

// document is docs/machines.md.
func document(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/machines.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The sizes in the document are those of the models' geometries that stand beside
// them.
func TestSizesInTheDocument(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| ([^|]+) \| (\d+) × (\d+) × (\d+) \|.*$`)
	rows := row.FindAllStringSubmatch(document(t), -1)
	if len(rows) < 8 {
		t.Fatal("rows:", rows)
	}
	for _, r := range rows {
		var layers, heads, dim int64
		if _, err := fmt.Sscan(r[2], &layers); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(r[3]+" "+r[4], &heads, &dim); err != nil {
			t.Fatal(err)
		}
		elements := 2 * layers * heads * dim // keys and values
		const gbit = 1e9 / 8                 // bytes a second
		token := 2 * elements
		want := fmt.Sprintf("| %s | %d × %d × %d | %.1f | %.1f | %.1f | %.2f | %.0f | %.0f |", r[1], layers, heads, dim,
			float64(token)/1024, float64(elements)*34/32/1024, float64(token)*256/(1<<20),
			0.9*(64<<30)/float64(token)/1e6, gbit/float64(token), 10*gbit/float64(token))
		if r[0] != want {
			t.Errorf("the document has\n%s\nnot\n%s", r[0], want)
		}
	}
}
