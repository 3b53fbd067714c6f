package standin

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	setup "ollamoon/internal/installed"
)

// python is the interpreter that has OpenAI's client.
func python(t *testing.T) string {
	t.Helper()
	for _, folder := range setup.Folders() {
		path := filepath.Join(folder, "openai", "bin", "python")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("OpenAI's Python client is not installed; run scripts/setup.sh --tests")
	return ""
}

// OpenAI's own client finds the stand-in to be what the engine is: one suite
// passes with both. With the stand-in it also finds what the store had.
func TestOpenAIClient(t *testing.T) {
	key := []string{"--api-key", "secret", "-np", "2", "-c", "2048", "-no-kvu", "--cache-ram", "0", "--jinja"}
	vectors := []string{"--api-key", "secret", "--embedding", "--pooling", "mean"}
	for name, c := range map[string]struct {
		p     program
		args  []string
		parts []string
		store string
	}{
		"the engine":                 {stock(t), key, nil, "0"},
		"the stand-in":               {standing(t, "OLLAMOON_STORE=memory:"), key, nil, "1"},
		"the stand-in for embedding": {standing(t, "OLLAMOON_STORE=memory:"), vectors, []string{"Embeddings"}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.p.serve(t, model(t, c.args...)...)
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			suite := exec.CommandContext(ctx, python(t), append([]string{"-B", "../../tests/openai/suite.py"}, c.parts...)...) //nolint:gosec // the project's own
			suite.Env = append(c.p.env, "OPENAI_BASE_URL="+r.address+"/v1", "OPENAI_API_KEY=secret", "OLLAMOON_STORE_EXPECTED="+c.store)
			if out, err := suite.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
