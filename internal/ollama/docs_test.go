package ollama

import (
	"os"
	"strings"
	"testing"
)

// The document for users knows what they may be told.
func TestDocumentHasTheMessages(t *testing.T) {
	text, err := os.ReadFile("../../docs/ollama.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []error{ErrNotFound, ErrNoServer, ErrSeveral, ErrLost, ErrBusy, ErrAccount} {
		if !strings.Contains(string(text), known.Error()) {
			t.Errorf("docs/ollama.md has no %q", known)
		}
	}
	for _, words := range []string{"ProtectSystem=strict", "Ollama was updated since it was attached, or an attach or detach was interrupted", ".detached", "Homebrew"} {
		if !strings.Contains(string(text), words) {
			t.Errorf("docs/ollama.md has no %q", words)
		}
	}
}
