package standin

import (
	"errors"
	"fmt"

	"github.com/ollama/ollama/fs/gguf"
)

// errNoWindow: a model's file does not tell of a sliding window.
var errNoWindow = errors.New("standin: the model's file tells of no sliding window")

// slidingWindow returns how many tokens a model's layers with a sliding window
// attend to.
func slidingWindow(path string) (int, error) {
	file, err := gguf.Open(shards(path)[0])
	if err != nil {
		return 0, fmt.Errorf("reading the model's properties: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	window := file.KeyValue("attention.sliding_window").Uint()
	if window == 0 {
		return 0, errNoWindow
	}
	return int(window), nil //nolint:gosec // tokens of a context
}

// ring returns how many pages the cells of layers with a sliding window hold for
// a slot: the window and a batch. Where slots share cells it is not known.
func (i identity) ring() int {
	tokens := min(i.window+i.args.UBatch(), i.props.Settings.ContextTokens)
	if i.window == 0 || i.shape.Sections[1].Streams != i.props.TotalSlots || tokens%i.settings.PageTokens != 0 {
		return 0
	}
	return tokens / i.settings.PageTokens
}
