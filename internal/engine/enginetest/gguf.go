// Package enginetest makes small files that tests start an engine with: a LoRA
// adapter and a control vector for the model that scripts/setup.sh installs
// (engine.Programs.Model), real ones, of random numbers that are the same each
// time. It is for tests only; a file that cannot be written fails the test.
package enginetest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// width and valueWidth are the model's: of its state, and of its values.
const width, valueWidth = 576, 192

// Adapter writes a LoRA adapter of rank 1 for the values of the model's first
// layer, and returns its path.
func Adapter(t *testing.T) string {
	t.Helper()
	return write(
		t, "adapter.gguf", "llama",
		map[string]any{"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": float32(1)},
		[]tensor{{"blk.0.attn_v.weight.lora_a", []uint64{width, 1}}, {"blk.0.attn_v.weight.lora_b", []uint64{1, valueWidth}}},
	)
}

// ControlVector writes a control vector for the model's first layer, and returns
// its path.
func ControlVector(t *testing.T) string {
	t.Helper()
	return write(
		t, "vector.gguf", "controlvector",
		map[string]any{"controlvector.model_hint": "llama"},
		[]tensor{{"direction.1", []uint64{width}}},
	)
}

// A tensor of a GGUF file, of 32-bit floats.
type tensor struct {
	name  string
	shape []uint64
}

// Types of GGUF's fields and tensors.
const (
	typeFloat  uint32 = 6
	typeString uint32 = 8
	typeF32    uint32 = 0
)

// write writes a file in GGUF's third version.
func write(t *testing.T, name, architecture string, fields map[string]any, tensors []tensor) string {
	t.Helper()
	var head, data bytes.Buffer
	put := func(v any) { _ = binary.Write(&head, binary.LittleEndian, v) } // into memory
	text := func(s string) {
		put(uint64(len(s)))
		head.WriteString(s)
	}
	head.WriteString("GGUF")
	put(uint32(3))
	put([]uint64{uint64(len(tensors)), uint64(len(fields) + 1)})
	text("general.architecture")
	put(typeString)
	text(architecture)
	for key, value := range fields {
		text(key)
		switch v := value.(type) {
		case string:
			put(typeString)
			text(v)
		case float32:
			put(typeFloat)
			put(v)
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	for _, tensor := range tensors {
		text(tensor.name)
		put(uint32(len(tensor.shape))) //nolint:gosec // one or two
		put(tensor.shape)
		put(typeF32)
		put(uint64(data.Len())) //nolint:gosec // small
		n := uint64(1)
		for _, d := range tensor.shape {
			n *= d
		}
		for range n {
			_ = binary.Write(&data, binary.LittleEndian, float32(random.Float64()-0.5)) // into memory
		}
		data.Write(padding(data.Len()))
	}
	head.Write(padding(head.Len()))
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, append(head.Bytes(), data.Bytes()...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// padding fills up to a multiple of 32 bytes.
func padding(n int) []byte { return make([]byte, -n&31) }
