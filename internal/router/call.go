package router

import (
	"encoding/binary"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/zeebo/xxh3"

	"ollamoon/internal/router/policy"
)

// Prompts are cut into blocks of text without tokenizing. A block is about a page
// of tokens.
const (
	bytesPerToken = 4
	blockTokens   = 256
	blockBytes    = blockTokens * bytesPerToken
	maxBlocks     = 1024 // of which a key is made
)

// sessionHeader is how a client names a conversation.
const sessionHeader = "Ollamoon-Session"

// A call is a request, its body read.
type call struct {
	treatment treatment
	tenant    string
	model     string // as the surface compares them; "" if none is named
	body      []byte
	// request has no number yet, and its OutputTokens is the limit that the client
	// has set; 0 is none.
	request policy.Request
}

// fields are those of a body that matter for its routing. Whatever else it has, and
// whether it is right, is the worker's concern.
type fields struct {
	Model    string            `json:"model"`
	Name     string            `json:"name"`
	Tools    json.RawMessage   `json:"tools"`
	System   json.RawMessage   `json:"system"`
	Instruct json.RawMessage   `json:"instructions"`
	Messages []json.RawMessage `json:"messages"`
	Prompt   json.RawMessage   `json:"prompt"`
	Prefix   json.RawMessage   `json:"input_prefix"`
	Input    json.RawMessage   `json:"input"`

	NPredict            float64 `json:"n_predict"`
	MaxTokens           float64 `json:"max_tokens"`
	MaxCompletionTokens float64 `json:"max_completion_tokens"`
	MaxOutputTokens     float64 `json:"max_output_tokens"`
	Options             struct {
		NumPredict float64 `json:"num_predict"`
	} `json:"options"`
}

// newCall reads what it can from a body. A body that is no JSON of the expected
// types has no model and no prompt: any worker says what is wrong with it.
func newCall(s Surface, r *http.Request, t treatment, tenant string, body []byte) *call {
	c := &call{treatment: t, tenant: tenant, body: body}
	c.request.BlockTokens = blockTokens
	var f fields
	if isJSON(r) && json.Unmarshal(body, &f) != nil {
		f = fields{}
	}
	if f.Model == "" {
		f.Model = f.Name
	}
	if id, ok := strings.CutPrefix(r.URL.Path, "/v1/models/"); ok {
		f.Model = id
	}
	c.model = s.modelKey(f.Model)
	seed := xxh3.HashString(tenant + "\x00" + c.model)
	if session := r.Header.Get(sessionHeader); session != "" {
		c.request.Session = tenant + "\x00" + c.model + "\x00" + session
	}
	keys, length := blocks(seed, f.prompt())
	c.request.Prefix, c.request.PromptTokens = keys, length/bytesPerToken
	for _, n := range []float64{f.NPredict, f.MaxTokens, f.MaxCompletionTokens, f.MaxOutputTokens, f.Options.NumPredict} {
		if n >= 1 {
			c.request.OutputTokens = int(min(n, 1<<20))
		}
	}
	return c
}

// isJSON reports whether a body may be JSON: clients often do not say.
func isJSON(r *http.Request) bool {
	if r.Header.Get("Content-Encoding") != "" {
		return false
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return !strings.HasPrefix(kind, "multipart/")
}

// prompt is the request's prompt in the order in which templates put it, in the
// bytes of the request. A prompt that continues another begins with its bytes.
func (f *fields) prompt() [][]byte {
	parts := [][]byte{f.Tools, f.System, f.Instruct}
	for _, m := range f.Messages {
		parts = append(parts, m)
	}
	return append(parts, open(f.Prefix), open(f.Prompt), open(f.Input))
}

// open is a JSON value without what ends it.
func open(value json.RawMessage) []byte {
	if n := len(value); n > 0 && (value[n-1] == '"' || value[n-1] == ']') {
		return value[:n-1]
	}
	return value
}

// blocks returns the keys of text's leading whole blocks, each of which hashes the
// one before, and the text's length.
func blocks(seed uint64, text [][]byte) ([]policy.Key, int) {
	var keys []policy.Key
	var block []byte
	total := 0
	for _, part := range text {
		total += len(part)
		for len(part) > 0 && len(keys) < maxBlocks {
			if block == nil {
				block = binary.LittleEndian.AppendUint64(make([]byte, 0, 8+blockBytes), seed)
			}
			n := min(len(part), 8+blockBytes-len(block))
			block, part = append(block, part[:n]...), part[n:]
			if len(block) == 8+blockBytes {
				seed = xxh3.Hash(block)
				keys = append(keys, policy.Key(seed))
				block = binary.LittleEndian.AppendUint64(block[:0], seed)
			}
		}
	}
	return keys, total
}

// modelKey is a model's name as the surface compares them.
func (s Surface) modelKey(name string) string {
	if s == Llama || name == "" {
		return name
	}
	name = strings.ToLower(name)
	name = strings.TrimPrefix(name, "registry.ollama.ai/")
	name = strings.TrimPrefix(name, "library/")
	if !strings.Contains(name[strings.LastIndex(name, "/")+1:], ":") {
		name += ":latest"
	}
	return name
}
