package ollama

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unitFolders are systemd's, the strongest first.
var unitFolders = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"}

const unitName = "ollama.service"

// A Unit is what matters here of the service that runs Ollama.
type Unit struct {
	Path        string
	User        string // empty: root
	DynamicUser bool
	ExecStart   string
	Environment map[string]string
	// ProtectSystem and ProtectHome are as they are given; ReadWritePaths are what
	// they spare.
	ProtectSystem, ProtectHome string
	ReadWritePaths             []string
}

// Program is what the service starts.
func (u Unit) Program() string {
	words := words(u.ExecStart)
	if len(words) == 0 {
		return ""
	}
	return strings.TrimLeft(words[0], "@-:+!")
}

// unit returns Ollama's service with the files that change parts of it.
func (h Host) unit() (Unit, bool) {
	var u Unit
	parts := map[string]string{} // by name: of the same name the strongest counts
	for _, folder := range unitFolders {
		path := h.at(filepath.Join(folder, unitName))
		if data, err := os.ReadFile(path); err == nil && u.Path == "" { //nolint:gosec // a system's file
			u.Path = path
			u.read(string(data))
		}
		found, _ := filepath.Glob(filepath.Join(escape(path)+".d", "*.conf")) // the pattern is sound
		for _, part := range found {
			if name := filepath.Base(part); parts[name] == "" {
				parts[name] = part
			}
		}
	}
	if u.Path == "" {
		return Unit{}, false
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if data, err := os.ReadFile(parts[name]); err == nil {
			u.read(string(data))
		}
	}
	return u, true
}

// read takes what a unit file says. Of most settings the last counts; lists are
// added to, and emptied by nothing.
func (u *Unit) read(text string) {
	section := ""
	text = strings.ReplaceAll(text, "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		name, value, found := strings.Cut(line, "=")
		if !found || section != "[Service]" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(name) {
		case "User":
			u.User = value
		case "DynamicUser":
			u.DynamicUser = value == "yes" || value == "true" || value == "1" || value == "on"
		case "ExecStart":
			u.ExecStart = value
		case "ProtectSystem":
			u.ProtectSystem = value
		case "ProtectHome":
			u.ProtectHome = value
		case "ReadWritePaths":
			u.ReadWritePaths = append(u.ReadWritePaths, words(value)...)
		case "Environment":
			u.set(value)
		}
	}
}

func (u *Unit) set(assignments string) {
	if assignments == "" || u.Environment == nil {
		u.Environment = map[string]string{}
	}
	for _, word := range words(assignments) {
		if name, value, ok := strings.Cut(word, "="); ok {
			u.Environment[name] = value
		}
	}
}

// words splits at blanks outside quotes, which go.
func words(text string) []string {
	var all []string
	var word strings.Builder
	var quote rune
	within := false
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, within = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if within {
				all = append(all, word.String())
				word.Reset()
			}
			within = false
		default:
			word.WriteRune(r)
			within = true
		}
	}
	if within {
		all = append(all, word.String())
	}
	return all
}

// keepsOut returns the setting that keeps the service from writing to a folder, or
// nothing.
func (u Unit) keepsOut(folder string) string {
	under := func(roots ...string) bool {
		return slices.ContainsFunc(roots, func(root string) bool {
			root = filepath.Clean(strings.TrimLeft(root, "-+"))
			return folder == root || strings.HasPrefix(folder, strings.TrimSuffix(root, "/")+"/")
		})
	}
	if under(u.ReadWritePaths...) {
		return ""
	}
	home := u.ProtectHome != "" && u.ProtectHome != "no" && u.ProtectHome != "false"
	switch {
	case home && under("/home", "/root", "/run/user"):
		return "ProtectHome=" + u.ProtectHome
	case u.ProtectSystem == "strict" && !under("/dev", "/proc", "/sys"):
		return "ProtectSystem=strict"
	case (u.ProtectSystem == "yes" || u.ProtectSystem == "true" || u.ProtectSystem == "full") && under("/usr", "/boot"):
		return "ProtectSystem=" + u.ProtectSystem
	case u.ProtectSystem == "full" && under("/etc"):
		return "ProtectSystem=full"
	}
	return ""
}
