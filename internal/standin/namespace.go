package standin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"

	"ollamoon/internal/engine"
	"ollamoon/internal/settings"
	"ollamoon/prefix"
	"ollamoon/slotfile"
)

// An identity is what a namespace is made of.
type identity struct {
	settings settings.Settings
	binary   string
	args     engine.Arguments
	weights  weightsFile
	digests  weightsCache // of adapters
	loras    []engine.LoRA
	props    engine.Props
	shape    slotfile.Shape
	window   int // of layers with a sliding window that keep no more than it
	seal     string
}

// namespace returns the namespace of an engine's pages. The label is made of the
// weights, not of their name, since it stands in the keys.
func (i identity) namespace(ctx context.Context) (prefix.Namespace, error) {
	flags := i.args.CacheFlags()
	n := prefix.Namespace{
		Label:      "gguf-" + i.weights.Digest[:12],
		Weights:    strings.Join(append([]string{"sha256:" + i.weights.Digest}, flags.Overrides...), " "),
		KeyType:    or(flags.KeyType, "f16"),
		ValueType:  or(flags.ValueType, "f16"),
		PageTokens: i.settings.PageTokens,
		RoPE:       strings.Join(flags.RoPE, " "),
		Tenant:     i.settings.Tenant,
		Seal:       i.seal,
	}
	if i.weights.LongRoPE {
		n.RoPE = strings.TrimSpace(n.RoPE + " context " + strconv.Itoa(i.props.Settings.ContextTokens))
	}
	var geometry []string
	for _, s := range i.shape.Sections {
		geometry = append(geometry, s.Geometry())
		n.ValuesTransposed = n.ValuesTransposed || s.Transposed
	}
	n.Geometry = strings.Join(geometry, "; ")
	var err error
	if n.Adapters, err = i.adapters(ctx, flags); err != nil {
		return prefix.Namespace{}, err
	}
	if i.settings.Exact {
		n.Exact = i.exact(ctx, flags)
	}
	return n, nil
}

func or(given, otherwise string) string {
	if given == "" {
		return otherwise
	}
	return given
}

// adapters names each adapter that is applied by the digest of its file.
func (i identity) adapters(ctx context.Context, flags engine.CacheFlags) ([]string, error) {
	var names []string
	add := func(kind, path, scale string) error {
		w, err := i.digests.file(ctx, path)
		if err != nil {
			return err
		}
		names = append(names, fmt.Sprintf("%s sha256:%s * %s", kind, w.Digest, scale))
		return nil
	}
	for _, l := range i.loras {
		if l.Scale == 0 {
			continue
		}
		if err := add("lora", l.Path, strconv.FormatFloat(l.Scale, 'g', -1, 64)); err != nil {
			return nil, err
		}
	}
	for _, v := range flags.ControlVectors {
		if err := add("control vector", v.Path, or(v.Scale, "1")); err != nil {
			return nil, err
		}
	}
	if flags.ControlLayers != "" {
		names = append(names, "control vectors of layers "+flags.ControlLayers)
	}
	return names, nil
}

// exact is what changes only the last bits: the processor's family, the
// accelerators, the engine's build and the options that choose how it computes.
func (i identity) exact(ctx context.Context, flags engine.CacheFlags) string {
	parts := []string{runtime.GOOS + "/" + runtime.GOARCH, "build " + i.props.BuildInfo}
	if cpus, err := cpu.InfoWithContext(ctx); err == nil && len(cpus) > 0 {
		c := cpus[0]
		parts = append(parts, fmt.Sprintf("cpu %s family %s model %s", c.VendorID, c.Family, c.Model))
	}
	parts = append(parts, "devices "+i.devices(ctx), "batch "+strconv.Itoa(i.args.UBatch()))
	return strings.Join(append(parts, flags.Exact...), ", ")
}

// devices lists the engine's accelerators, without how much of their memory is
// free.
func (i identity) devices(ctx context.Context) string {
	command := exec.CommandContext(ctx, i.binary, "--list-devices") //nolint:gosec // the user's program
	command.Env = i.args.Env
	out, err := command.Output()
	if err != nil {
		return "unknown"
	}
	var devices []string
	for line := range strings.Lines(string(out)) {
		device, _, _ := strings.Cut(line, "(")
		if device = strings.TrimSpace(device); device != "" {
			devices = append(devices, device)
		}
	}
	return strings.Join(devices, " ")
}

// sealName tells pages apart that are sealed in another way or with another
// key, without telling the key.
func sealName(key []byte) string {
	if key == nil {
		return "checksum"
	}
	digest := sha256.Sum256(append([]byte("ollamoon seal key\n"), key...))
	return "mac " + hex.EncodeToString(digest[:8])
}
