package doctor

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"

	"ollamoon/internal/ollama"
	"ollamoon/internal/remote"
	"ollamoon/internal/room"
	"ollamoon/internal/standin"
	"ollamoon/page"
)

func (p *patient) settings(context.Context) {
	if p.SettingsError != nil {
		p.add(Fail, "settings", "correct it; ollamoon llama-server --ollamoon-help lists what can be set", "%v", p.SettingsError)
		return
	}
	p.ok("settings", "store %s, role %s", p.Settings.Store, p.Settings.Role)
}

// ollama looks at an Ollama that is there. None is no fault.
func (p *patient) ollama(ctx context.Context) {
	status, err := ollama.Look(ctx, p.Ollama)
	switch {
	case errors.Is(err, ollama.ErrNotFound), errors.Is(err, ollama.ErrSigned):
		p.ok("Ollama", "none that could be attached to")
		return
	case err != nil:
		p.add(Warn, "Ollama", "name one by --lib, or leave it", "%v", err)
		return
	}
	p.attached = status
	for _, problem := range status.Problems {
		p.add(Fail, "Ollama", "see ollamoon status", "%s", problem)
	}
	switch {
	case len(status.Problems) > 0:
	case status.Attached:
		p.ok("Ollama", "attached in %s", status.Lib)
	default:
		p.ok("Ollama", "in %s, not attached (ollamoon attach)", status.Lib)
	}
}

// packages are Debian's packages of libraries that a llama-server may need.
var packages = map[string]string{
	"libgomp.so.1": "libgomp1", "libstdc++.so.6": "libstdc++6", "libcurl.so.4": "libcurl4", "libssl.so.3": "libssl3",
	"libcrypto.so.3": "libssl3", "libvulkan.so.1": "libvulkan1", "libnuma.so.1": "libnuma1",
}

// missingLibrary is what the dynamic loader says.
var missingLibrary = regexp.MustCompile(`loading shared libraries: (\S+): cannot open`)

// binary runs the real llama-server.
func (p *patient) binary(ctx context.Context) {
	startedAs := standin.Name
	if p.attached != nil && p.Settings.Binary == "" {
		startedAs = filepath.Join(p.attached.Folders[0].Path, standin.Name)
	}
	path, err := standin.FindBinary(p.Settings.Binary, startedAs, os.Getenv("PATH"))
	if err != nil {
		do := "install llama.cpp, or name its llama-server by --binary"
		if p.attached != nil {
			do = "install Ollama again, then ollamoon attach"
		}
		p.add(Fail, "llama-server", do, "%v", err)
		return
	}
	out, err := exec.CommandContext(ctx, path, "--version").CombinedOutput() //nolint:gosec // the user's program
	text := strings.TrimSpace(string(out))
	if err == nil {
		first, _, _ := strings.Cut(text, "\n")
		p.ok("llama-server", "%s, %s", path, first)
		return
	}
	do := "run it by hand: " + path + " --version"
	if missing := missingLibrary.FindStringSubmatch(text); missing != nil {
		do = "install the package that has " + missing[1]
		if name, ok := packages[missing[1]]; ok {
			do = "install it: apt-get install " + name
		}
	} else if errors.Is(err, os.ErrPermission) {
		do = "chmod +x it, or run this as a user who may"
	}
	p.add(Fail, "llama-server", do, "%s does not run: %v: %s", path, err, text)
}

func (p *patient) sealKey(context.Context) {
	path := p.Settings.SealKeyFile
	if path == "" {
		return
	}
	data, err := os.ReadFile(path) //nolint:gosec // the user names the file
	do := "let the user who runs llama-server read it: chown it, with mode 0400"
	if errors.Is(err, fs.ErrNotExist) {
		do = "make it: (umask 377; head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n' > " + path + ")"
	}
	if err == nil {
		var key []byte
		if key, err = hex.DecodeString(strings.TrimSpace(string(data))); err == nil {
			_, err = page.NewKeyedSealer(key)
		}
		do = "name a file of 64 hexadecimal digits by --seal-key-file"
	}
	if err != nil {
		p.add(Fail, "sealing key", do, "%s: %v", path, err)
		return
	}
	info, err := os.Stat(path)
	if err == nil && info.Mode().Perm()&0o044 != 0 {
		p.add(Warn, "sealing key", "chmod 0400 "+path, "%s can be read by others (mode %04o), who can then make pages that are believed", path, info.Mode().Perm())
		return
	}
	p.ok("sealing key", "%s", path)
}

// sharedMemory is where Linux has a file system in memory, and fullSpeed what it
// must have free for slot files to be put there.
const (
	sharedMemory = "/dev/shm"
	fullSpeed    = 1 << 30
)

// slotFiles looks at the folders through which pages get into the engine.
func (p *patient) slotFiles(context.Context) {
	if folder := p.Settings.Slots; folder != "" {
		if p.private(folder) {
			p.ok("slot files", "%s has %s free", folder, size(room.Bytes(folder)))
		}
		return
	}
	own := "ollamoon-" + strconv.Itoa(os.Getuid())
	for _, folder := range []string{os.TempDir(), sharedMemory} {
		if _, err := os.Stat(filepath.Join(folder, own)); err == nil && !p.private(filepath.Join(folder, own)) {
			return
		}
	}
	free := room.Bytes(sharedMemory)
	if free >= fullSpeed {
		p.ok("slot files", "%s has %s free, within the limits on memory", sharedMemory, size(free))
		return
	}
	p.add(Warn, "slot files", "give it more (docker run --shm-size 4g; MemoryMax of a service), or name a quick folder by --slots",
		"%s has only %s free, within the limits on memory: slot files go to %s (%s free), which is slower", sharedMemory, size(free), os.TempDir(), size(room.Bytes(os.TempDir())))
}

// private reports whether a folder is this user's, and closed to others.
func (p *patient) private(folder string) bool {
	info, err := os.Lstat(folder)
	if err != nil {
		p.add(Fail, "slot files", fmt.Sprintf("make it: mkdir -m 700 %s", folder), "%v", err)
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || ok && int(owner.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		p.add(Fail, "slot files", fmt.Sprintf("remove it, or chown it to user %d and chmod 700 it", os.Getuid()), "%s has to be a folder of this user alone, and is %v", folder, info.Mode())
		return false
	}
	return true
}

func size(bytes int64) string { return humanize.IBytes(uint64(max(0, bytes))) }

// worker asks a running one.
func (p *patient) worker(ctx context.Context) {
	if p.Worker.URL == "" {
		return
	}
	status, err := p.Worker.Status(ctx)
	switch {
	case errors.Is(err, remote.ErrStock):
		p.add(Fail, "worker", "start it as ollamoon llama-server, or attach to its Ollama", "%v", err)
		return
	case err != nil:
		p.add(Fail, "worker", "start it, or name another by --worker http://HOST:PORT", "%v", err)
		return
	case !status.Sharing:
		p.add(Fail, "worker", "", "it does not share prompts: %s", status.Reason)
		return
	}
	p.ok("worker", "it shares prompts, store %s, role %s, namespace %s", status.Store, status.Role, status.Namespace)
	// That it shares says that slot files were cut and made again at its start.
	p.ok("its slot files", "as expected of build %s, in %s (%s free), %d of %d slots free", status.Engine.Build, status.Slots.Folder,
		size(room.Bytes(status.Slots.Folder)), status.Slots.Free, status.Slots.Total)
	if status.Store != p.Settings.Store {
		p.add(Warn, "worker", "looks at the worker's: --store "+strconv.Quote(status.Store), "its store is another than the one looked at here (%s)", p.Settings.Store)
	}
}
