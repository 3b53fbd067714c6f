package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"ollamoon/internal/results"
	"ollamoon/internal/supervise"
)

// start starts the servers, one after the other: each one measures something when
// it starts.
func (t *ttft) start(ctx context.Context) error {
	step, end := t.Progress.stage("starting five llama-servers", 5)
	defer end()
	if err := t.makeSlotFolder(); err != nil {
		return err
	}
	folder := "file:" + filepath.Join(t.dir, "pages")
	mooncake, errMooncake := t.sharing(t.programs, t.overTCP())
	files, errFiles := t.sharing(t.programs, folder)
	if errMooncake != nil || errFiles != nil {
		return errors.Join(errMooncake, errFiles)
	}
	for _, s := range []struct {
		into    **llama
		name    string
		command supervise.Command
		args    []string
	}{
		{&t.stock, "llama-server", supervise.Command{Path: t.programs.Binary}, nil},
		{&t.none, "a stand-in without a store", t.what.Worker, []string{"--ollamoon-binary", t.programs.Binary, "--ollamoon-store", "none"}},
		{&t.publisher, "the publisher", t.what.Worker, mooncake},
		{&t.tcp, "the reader over TCP", t.what.Worker, append(mooncake, "--ollamoon-role", "decode")},
		{&t.file, "the reader of files", t.what.Worker, append(files, "--ollamoon-role", "decode")},
	} {
		var err error
		if *s.into, err = startLlama(ctx, s.name, s.command, append(t.arguments(), s.args...)...); err != nil {
			return err
		}
		step()
	}
	return t.openShelf(ctx, folder)
}

// makeSlotFolder makes a folder for slot files where the stand-in would have it,
// in memory; the servers get it by name, so that their slots may be erased.
func (t *ttft) makeSlotFolder() (err error) {
	if t.slots, err = os.MkdirTemp("/dev/shm", "ollamoon-bench-"); err != nil {
		t.slots, err = os.MkdirTemp("", "ollamoon-bench-")
	}
	if err != nil {
		return fmt.Errorf("making a folder for slot files: %w", err)
	}
	return nil
}

// arguments of all servers. Nothing is remembered of conversations, so that an
// erased slot is a cold one.
func (t *ttft) arguments() []string {
	return []string{
		"-m", t.programs.Model, "-ngl", "0", "-np", "1", "-c", strconv.Itoa(t.what.longest() + room), "-t", strconv.Itoa(runtime.NumCPU()),
		"--cache-ram", "0", "--slot-save-path", t.slots,
	}
}

// wheel is the version of Mooncake's wheel.
func (t *ttft) wheel(ctx context.Context) (string, error) {
	const ask = `import importlib.metadata as m; print(m.version("mooncake-transfer-engine-non-cuda"))`
	said, err := exec.CommandContext(ctx, t.cluster.Python(), "-c", ask).Output() //nolint:gosec // a program of the wheel's environment
	if err != nil {
		return "", fmt.Errorf("asking for the version of Mooncake: %w", err)
	}
	return strings.TrimSpace(string(said)), nil
}

// room in the context beside the longest prompt.
const room = 255

// memory is that of the stand-ins that publish and load.
func (t *ttft) memory() (results.Memory, error) {
	var m results.Memory
	for _, p := range []struct {
		of   *llama
		into *results.Resident
	}{{t.publisher, &m.Publisher}, {t.tcp, &m.Loader}} {
		now, peak, err := residentOf(strconv.Itoa(p.of.process.PID()))
		if err != nil {
			return m, err
		}
		p.into.NowBytes, p.into.PeakBytes = now, peak
	}
	return m, nil
}

// close ends the servers.
func (t *ttft) close() {
	t.pages.close()
	for _, l := range []*llama{t.stock, t.none, t.publisher, t.tcp, t.file} {
		if l != nil {
			l.stop()
		}
	}
	if t.slots != "" {
		_ = os.RemoveAll(t.slots) // empty but for what a server has left
	}
}
