package ollama

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"ollamoon/internal/remote"
	"ollamoon/internal/room"
)

// askTime bounds a question to a stand-in.
const askTime = 3 * time.Second

// minStoreBytes is less room than a store is of use with.
const minStoreBytes = 1 << 30

// A Status is what is to be known of an installation.
type Status struct {
	Lib      string         `json:"lib"`
	Version  string         `json:"ollama_version,omitempty"`
	User     string         `json:"user,omitempty"`
	Attached bool           `json:"attached"` // all folders are
	Folders  []FolderStatus `json:"folders"`
	Settings string         `json:"settings,omitempty"` // the file, if it is there
	Store    string         `json:"store,omitempty"`
	Running  []Running      `json:"running"`
	Problems []string       `json:"problems"` // each with what to do
}

// A FolderStatus is what is to be known of one folder with a llama-server.
type FolderStatus struct {
	Path    string `json:"path"`
	State   State  `json:"state"`
	Real    string `json:"real_version,omitempty"`
	StandIn string `json:"stand_in_version,omitempty"`
}

// Running is a stand-in that runs in the installation.
type Running struct {
	PID     int    `json:"pid"`
	URL     string `json:"url"`
	Sharing bool   `json:"sharing"`
	Reason  string `json:"reason,omitempty"` // why not, or why that is not known
	Store   string `json:"store,omitempty"`
}

// Look returns the state of an installation. Of the options it needs those that
// find it; with a Program it also says whether the stand-in is another.
func Look(ctx context.Context, o Options) (*Status, error) {
	installation, err := o.Find(o.Lib)
	if err != nil {
		return nil, err
	}
	s := &Status{Lib: installation.Lib, Attached: true, Running: []Running{}, Problems: []string{}}
	account, unknown := o.account(installation, o.User)
	if unknown != nil {
		s.problem("%v", unknown)
		account = Account{UID: os.Geteuid()}
	}
	s.User = account.Name
	s.Version = ollamaVersion(ctx, installation.Program, account)
	path, err := o.settingsFile(installation)
	if err != nil {
		return nil, err
	}
	for _, place := range installation.Folders {
		f := folder{path: place}
		state, err := f.state(path)
		if err != nil {
			return nil, err
		}
		s.Attached = s.Attached && state == Attached
		s.folder(ctx, f, state, o.Program, account)
		for _, p := range o.servers(place) {
			if r, ok := ask(ctx, p); ok {
				s.Running = append(s.Running, r)
			}
		}
	}
	if exists(path) {
		s.settings(ctx, path, account, unknown == nil)
	}
	if unit, ok := o.service(installation); ok {
		if dir, ok := storeFolder(s.Store); ok && unit.keepsOut(dir) != "" {
			s.problem("%s in %s keeps the service from writing to the store: add ReadWritePaths=%s", unit.keepsOut(dir), unit.Path, dir)
		}
	}
	return s, nil
}

func (s *Status) problem(format string, args ...any) {
	s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
}

// folder adds what is to be known of a folder. Its programs run as Ollama's user:
// the folder may be that user's, and this one root.
func (s *Status) folder(ctx context.Context, f folder, state State, program string, account Account) {
	fs := FolderStatus{Path: f.path, State: state}
	switch state {
	case Updated:
		s.problem("Ollama was updated since it was attached, or an attach or detach was interrupted; it works unshared: run ollamoon attach")
	case Interrupted:
		s.problem("an attach was interrupted; Ollama works unshared: run ollamoon attach, or ollamoon detach")
	case Missing:
		s.problem("%s is not there, so that Ollama cannot run models: run ollamoon attach, or ollamoon detach", f.server())
	case Lost:
		s.problem("%s: %v", f.path, ErrLost)
	case Detached, Attached:
	}
	binary := f.server()
	if state == Attached || state == Missing {
		binary = f.kept()
	}
	if state != Lost {
		var err error
		if fs.Real, err = serverVersion(ctx, binary, account); err != nil {
			s.problem("%s does not run (ollamoon doctor says more): %v", binary, err)
		}
	}
	if state == Attached {
		var err error
		if fs.StandIn, err = version(ctx, f.server(), account); err != nil {
			s.problem("the stand-in does not run: %v: run ollamoon attach", err)
		} else if program != "" && !equal(program, f.server()) {
			s.problem("the stand-in is another build (%s) than this program: run ollamoon attach to bring it up to date", fs.StandIn)
		}
	}
	s.Folders = append(s.Folders, fs)
}

// settings adds what is to be known of the settings and the store that they name.
func (s *Status) settings(ctx context.Context, path string, account Account, known bool) {
	s.Settings = path
	loaded, err := loadSettings(path)
	if err != nil {
		s.problem("prompts are not shared, as the settings are not right: %v", err)
		return
	}
	s.Store = loaded.Store
	if known && !account.may(ctx, "-r", path) {
		s.problem("user %s cannot read %s: chmod 644 it, and 755 its folder", account.Name, path)
	}
	dir, ok := storeFolder(loaded.Store)
	if !ok || !known {
		return
	}
	if err := checkStore(ctx, dir, account); err != nil {
		s.problem("%v", err)
		return
	}
	if free := room.Bytes(dir); free < minStoreBytes {
		s.problem("the disk of the store %s has only %s left: make room, or name another by ollamoon attach --store file:FOLDER", dir, humanize.IBytes(uint64(max(0, free))))
	}
}

var versionWord = regexp.MustCompile(`\d+\.\d+[\w.+-]*`)

// ollamaVersion returns the version of an ollama program, if it tells.
func ollamaVersion(ctx context.Context, program string, account Account) string {
	if program == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--version")
	account.as(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return ""
	}
	return versionWord.FindString(string(out))
}

// serverVersion runs a real llama-server and returns its version, in its words.
func serverVersion(ctx context.Context, binary string, account Account) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "--version")
	account.as(cmd)
	out, err := cmd.CombinedOutput()
	text := strings.TrimSpace(string(out))
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, "version: "); ok && err == nil {
			return strings.TrimSpace(v), nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, text[:min(len(text), 300)])
	}
	first, _, _ := strings.Cut(text, "\n")
	return first, nil
}

// ask asks a running llama-server what it shares. One that serves nothing, or is
// no stand-in, is none.
func ask(ctx context.Context, p Process) (Running, bool) {
	at := slices.Index(p.Args, "--port")
	if at < 0 || at+1 == len(p.Args) {
		return Running{}, false
	}
	r := Running{PID: p.PID, URL: "http://" + net.JoinHostPort("127.0.0.1", p.Args[at+1])}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	status, err := remote.Server{URL: r.URL}.Status(ctx)
	switch {
	case errors.Is(err, remote.ErrStock):
		r.Reason = "the real llama-server runs by itself: it was started before Ollama was attached"
	case err != nil:
		r.Reason = err.Error()
	default:
		r.Sharing, r.Reason, r.Store = status.Sharing, status.Reason, status.Store
	}
	return r, true
}
