package ollama

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"ollamoon/internal/settings"
	"ollamoon/store/open"
)

// ErrOthers: another user has attached, and has the settings.
var ErrOthers = errors.New("another user has attached to this Ollama")

// settingsFile is the file of an installation's settings: one that lies beside the
// stand-in itself, that which the link there leads to, or else ownSettings.
func (h Host) settingsFile(i Installation) (string, error) {
	beside := folder{path: i.Folders[0]}.link()
	if info, err := os.Lstat(beside); err == nil && info.Mode().IsRegular() {
		return beside, nil
	}
	if target, err := os.Readlink(beside); err == nil && filepath.IsAbs(target) && exists(target) {
		return target, nil
	}
	return h.ownSettings(i)
}

// mayChange returns ErrOthers for a file of settings that this user should not
// write to: a link in a folder of another user's may lead anywhere.
func (h Host) mayChange(i Installation, file string) error {
	own, err := h.ownSettings(i)
	if err != nil || file == own || file == (folder{path: i.Folders[0]}).link() {
		return err
	}
	return fmt.Errorf("%w, with the settings %s: attach as that user, or detach first", ErrOthers, file)
}

// ownSettings is the file of settings that this user would make: the machine's, or
// that of a user who is not root.
func (h Host) ownSettings(i Installation) (string, error) {
	name := strings.Trim(strings.ReplaceAll(i.Lib, "/", "-"), "-") + ".yaml"
	if os.Geteuid() == 0 {
		return h.at(filepath.Join("/etc/ollamoon", name)), nil
	}
	user, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("the folder for settings: %w", err)
	}
	return filepath.Join(user, "ollamoon", name), nil
}

// detachedSettings is the name of the settings of an installation that is
// detached, for the next time.
func detachedSettings(path string) string { return path + ".detached" }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// loadSettings returns what the stand-in will read in a file.
func loadSettings(path string) (settings.Settings, error) {
	s, _, err := settings.Load([]string{"--ollamoon-config", path}, nil, "")
	return s, err
}

// compose returns the contents of the settings file: what is there, from this time
// or an earlier one, with what is set now.
func compose(path, lib string, set map[string]string, account Account) ([]byte, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user's settings
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(detachedSettings(path))
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		text = fmt.Appendf(nil, "# Settings of the llama-server in %s, yours to edit; a change counts when a model is loaded next.\n"+
			"# ollamoon llama-server --ollamoon-help lists what can be set.\n", lib)
	case err != nil:
		return nil, fmt.Errorf("reading settings: %w", err)
	}
	values, err := absolute(set)
	if err != nil {
		return nil, err
	}
	var present map[string]yaml.Node
	if err := yaml.Unmarshal(text, &present); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; correct it or remove it", settings.ErrValue, path, err)
	}
	store, given := values["store"]
	if _, ok := present["store"]; !ok && !given {
		store, given = "file:", true
	}
	if query, ok := strings.CutPrefix(store, "file:"); given && ok && (query == "" || query[0] == '?') {
		store = "file:" + filepath.Join(account.Cache, "ollamoon", "pages") + query
	}
	if given {
		values["store"] = store
	}
	return edit(text, present, values)
}

// absolute returns settings that mean the same to a service, which has another
// working directory and another home: with whole paths.
func absolute(set map[string]string) (map[string]string, error) {
	values := map[string]string{}
	for name, value := range set {
		var err error
		switch {
		case value == "":
		case name == "seal-key-file", name == "slots":
			value, err = filepath.Abs(value)
		case name == "store" && value != "mooncake:": // this one is the service's environment's
			value, err = absoluteStore(value)
		}
		if err != nil {
			return nil, fmt.Errorf("the setting %s: %w", name, err)
		}
		values[name] = value
	}
	return values, nil
}

func absoluteStore(url string) (string, error) {
	if err := open.Check(url); err != nil {
		return "", err
	}
	dir, ok, err := open.Folder(url)
	if !ok || err != nil || strings.HasPrefix(url, "file:?") || url == "file:" { // the last two are the account's
		return url, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if _, query, ok := strings.Cut(url, "?"); ok {
		dir += "?" + query
	}
	return "file:" + dir, nil
}

// edit puts values into lines of YAML, each in the place of the line that has its
// name, or at the end. All else stays as it was written.
func edit(text []byte, present map[string]yaml.Node, values map[string]string) ([]byte, error) {
	lines := strings.SplitAfter(string(text), "\n")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		node, ok := present[name]
		if ok && node.Value == values[name] {
			continue
		}
		line, err := yaml.Marshal(map[string]string{name: values[name]})
		if err != nil {
			return nil, fmt.Errorf("writing settings: %w", err)
		}
		if ok {
			lines[node.Line-1] = string(line)
			continue
		}
		if last := len(lines) - 1; lines[last] != "" {
			lines[last] += "\n"
		}
		lines = append(lines, string(line))
	}
	return []byte(strings.Join(lines, "")), nil
}

// writeSettings puts the settings in place, for everyone to read, if they differ
// from what is there.
func (d disk) writeSettings(path string, data []byte) (changed bool, err error) {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) { //nolint:gosec // the user's settings
		return false, nil
	}
	if err := d.mkdir(filepath.Dir(path), 0o755, Account{UID: os.Geteuid()}); err != nil {
		return false, err
	}
	part := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".part")
	if err := d.remove(part); err != nil {
		return false, err
	}
	if err := d.write(part, data, 0o644); err != nil {
		return false, err
	}
	_, err = loadSettings(part)
	if err != nil {
		err = fmt.Errorf("%s would not be right: %w", path, err)
	} else {
		err = d.rename(part, path)
	}
	if err != nil {
		return false, errors.Join(err, d.remove(part)) // it is of no use
	}
	return true, nil
}

// storeFolder returns the folder of a store of files.
func storeFolder(url string) (string, bool) {
	dir, ok, err := open.Folder(url)
	return dir, ok && err == nil
}
