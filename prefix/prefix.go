package prefix

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// DefaultKeyPrefix starts every key unless a Config says otherwise. It is pull
// request 2800's.
const DefaultKeyPrefix = "mc/ollama"

// seedDomain keeps these hashes apart from any other use of SHA-256.
const seedDomain = "mooncake-ollama-kv\x00"

// keyHashBytes is how much of a page's hash its key shows. The whole hash is in
// the page's seal, which a reader checks.
const keyHashBytes = 16

var (
	// ErrNoModel is returned when a Config names no model: keys of different
	// models would meet.
	ErrNoModel = errors.New("prefix: no model is named")
	// ErrPageTokens is returned when a Config's PageTokens is not positive.
	ErrPageTokens = errors.New("prefix: page tokens must be positive")
)

// A Hash is the chain's value at the end of a page: it stands for all tokens up
// to there and for the model.
type Hash [sha256.Size]byte

// String returns the hash in hexadecimal, whole.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// A Config says how a prompt is cut into pages and how their keys are written.
type Config struct {
	// Model is what the chain starts from: a model's name, or a namespace's
	// (see Namespace.Model). It stands in each key as given.
	Model string
	// PageTokens is the number of tokens in a page.
	PageTokens int
	// KeyPrefix starts each key; empty means DefaultKeyPrefix.
	KeyPrefix string
	// Common, if not nil, are beginnings of prompts whose pages have keys of
	// another model.
	Common *Common
}

// Common are beginnings of prompts that several models of a Config have in
// common: pages that lie wholly in one of them have the keys that Model gives
// them. So those who otherwise share nothing, such as tenants, share these.
type Common struct {
	Model   string
	Prompts [][]int32
}

// tokens is how many tokens of a prompt, from the first on, are in common.
func (c *Common) tokens(prompt []int32) int {
	most := 0
	for _, known := range c.Prompts {
		n := 0
		for n < len(known) && n < len(prompt) && known[n] == prompt[n] {
			n++
		}
		most = max(most, n)
	}
	return most
}

// A Page is one full page of a prompt.
type Page struct {
	// Key is the name of the page in a store.
	Key string
	// Hash is the chain's value at the page's end.
	Hash Hash
}

// Validate returns ErrNoModel, ErrPageTokens or nil.
func (c Config) Validate() error {
	if c.Model == "" {
		return ErrNoModel
	}
	if c.PageTokens <= 0 {
		return fmt.Errorf("%w, not %d", ErrPageTokens, c.PageTokens)
	}
	return nil
}

// Pages returns the full pages of a prompt in order; tokens after the last full
// page count for nothing.
func (c Config) Pages(tokens []int32) ([]Page, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	pages := c.chain(tokens)
	if c.Common == nil {
		return pages, nil
	}
	common := c
	common.Model, common.Common = c.Common.Model, nil
	if err := common.Validate(); err != nil {
		return nil, err
	}
	shared := c.Common.tokens(tokens) / c.PageTokens * c.PageTokens
	copy(pages, common.chain(tokens[:shared]))
	return pages, nil
}

// chain returns the full pages of a prompt as the model names them.
func (c Config) chain(tokens []int32) []Page {
	pages := make([]Page, len(tokens)/c.PageTokens)
	stem := c.stem()
	message := make([]byte, sha256.Size+4*c.PageTokens)
	hash := sha256.Sum256([]byte(seedDomain + c.Model))
	for i := range pages {
		copy(message, hash[:])
		rest := message[sha256.Size:]
		for _, token := range tokens[i*c.PageTokens : (i+1)*c.PageTokens] {
			binary.BigEndian.PutUint32(rest, uint32(token)) //nolint:gosec // the chain hashes the 32 bits as they are
			rest = rest[4:]
		}
		hash = sha256.Sum256(message)
		pages[i] = Page{Key: stem + hex.EncodeToString(hash[:keyHashBytes]), Hash: hash}
	}
	return pages
}

// stem is what all keys of a Config share.
func (c Config) stem() string {
	start := c.KeyPrefix
	if start == "" {
		start = DefaultKeyPrefix
	}
	return start + "/" + c.Model + "/"
}

// Run returns the length of the run of true at the start of present: what of a
// prefix can be used, since a page is of use only with all pages before it.
func Run(present []bool) int {
	for i, ok := range present {
		if !ok {
			return i
		}
	}
	return len(present)
}
