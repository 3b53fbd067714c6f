// Package enginetest makes files that tests start an engine with, of or for the
// model that scripts/setup.sh installs (engine.Programs.Model): that model with few
// of its layers, and a LoRA adapter and a control vector of random numbers that are
// the same each time. It is for tests only; a file that cannot be written fails the
// test.
package enginetest

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ollama/ollama/fs/ggml"

	"ollamoon/internal/engine"
)

// width and valueWidth are the model's: of its state, and of its values.
const width, valueWidth = 576, 192

// Adapter writes a LoRA adapter of rank 1 for the values of the model's first
// layer, and returns its path.
func Adapter(t *testing.T) string {
	t.Helper()
	return write(
		t, "adapter.gguf",
		ggml.KV{
			"general.architecture": "llama", "general.type": "adapter",
			"adapter.type": "lora", "adapter.lora.alpha": float32(1),
		},
		[]*ggml.Tensor{random("blk.0.attn_v.weight.lora_a", width, 1), random("blk.0.attn_v.weight.lora_b", 1, valueWidth)},
	)
}

// ControlVector writes a control vector for the model's first layer, and returns
// its path.
func ControlVector(t *testing.T) string {
	t.Helper()
	return write(
		t, "vector.gguf",
		ggml.KV{"general.architecture": "controlvector", "controlvector.model_hint": "llama"},
		[]*ggml.Tensor{random("direction.1", width)},
	)
}

// Small writes the model with its first two layers only, and returns its path. Its
// words and its tokens are the model's, its answers make no sense, and it computes
// a prompt more than ten times as fast: for tests in which only the number of
// requests counts.
func Small(t *testing.T) string {
	t.Helper()
	const layers = 2
	programs, err := engine.Find()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.Open(programs.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close() //nolint:errcheck // read only
	model, err := ggml.Decode(whole, -1)
	if err != nil {
		t.Fatalf("%s: %v", programs.Model, err)
	}
	fields := model.KV()
	delete(fields, "general.parameter_count") // of the library's own
	fields[fields.Architecture()+".block_count"] = uint32(layers)
	tensors := slices.DeleteFunc(model.Tensors().Items(), func(tensor *ggml.Tensor) bool {
		of, isLayer := strings.CutPrefix(tensor.Name, "blk.")
		number, _, _ := strings.Cut(of, ".")
		layer, err := strconv.Atoi(number)
		return isLayer && (err != nil || layer >= layers)
	})
	for _, tensor := range tensors {
		at := int64(model.Tensors().Offset + tensor.Offset)                          //nolint:gosec // a file's
		tensor.WriterTo = from{io.NewSectionReader(whole, at, int64(tensor.Size()))} //nolint:gosec // too
	}
	return write(t, "small.gguf", fields, tensors)
}

// from is where the bytes of a tensor come from.
type from struct{ io.Reader }

func (f from) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, f.Reader) }

// random is a tensor of 32-bit floats.
func random(name string, shape ...uint64) *ggml.Tensor {
	n := uint64(1)
	for _, d := range shape {
		n *= d
	}
	numbers := rand.New(rand.NewPCG(1, n)) //nolint:gosec // the same each time
	var data bytes.Buffer
	for range n {
		_ = binary.Write(&data, binary.LittleEndian, float32(numbers.Float64()-0.5)) // into memory
	}
	return &ggml.Tensor{Name: name, Shape: shape, WriterTo: &data}
}

func write(t *testing.T, name string, fields ggml.KV, tensors []*ggml.Tensor) string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), name)) //nolint:gosec // the test's own folder
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // as below
	if err := ggml.WriteGGUF(file, fields, tensors); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Name()
}
