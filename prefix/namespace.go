package prefix

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// A Namespace is everything besides the tokens that changes the meaning or the
// form of a page. Two caches may exchange pages only when their namespaces are
// equal; Model makes the hash chain start from the namespace, so unequal ones
// never meet under one key.
//
// Strings are compared as they are given. A zero field says that the matter
// does not arise (no adapters, a single tenant), and is distinct from any value.
type Namespace struct {
	// Label is for people: it stands in the keys before the digest, and does
	// not enter it.
	Label string

	// Weights is the digest of the model's weights over all shards, and of
	// metadata overrides.
	Weights string
	// Adapters lists LoRA adapters with their scales, control vectors with
	// theirs, in the order in which they are applied.
	Adapters []string
	// KeyType and ValueType are the element types of the cache ("f16", "q8_0").
	KeyType, ValueType string
	// Transforms names what is done to rows before they are stored, such as a
	// rotation.
	Transforms string
	// ValuesTransposed says that values are stored transposed, as without flash
	// attention.
	ValuesTransposed bool
	// PageTokens is the number of tokens in a page.
	PageTokens int
	// Geometry describes the sections of the cache: for each, its layers, KV
	// heads, head dimension and window.
	Geometry string
	// RoPE describes the position encoding: type, base, scaling, factors.
	RoPE string
	// Tenant keeps one tenant's pages from all others'.
	Tenant string
	// Seal names how pages are sealed, and with which key, so that those who
	// cannot open each other's pages do not meet.
	Seal string

	// Exact is set when the bits themselves have to be equal. It names what
	// changes only the last bits: processor family, accelerator, library build,
	// batch sizes. Empty means that close values are good enough.
	Exact string
}

// fields lists what the digest covers, in words. Each value is a quoted string,
// so that no value can pass for another field.
func (n Namespace) fields() []string {
	quotedAdapters := make([]string, len(n.Adapters))
	for i, a := range n.Adapters {
		quotedAdapters[i] = strconv.Quote(a)
	}
	field := func(name, value string) string { return name + "=" + strconv.Quote(value) }
	all := []string{
		field("weights", n.Weights),
		field("adapters", strings.Join(quotedAdapters, ",")),
		field("key_type", n.KeyType),
		field("value_type", n.ValueType),
		field("transforms", n.Transforms),
		field("values_transposed", strconv.FormatBool(n.ValuesTransposed)),
		field("page_tokens", strconv.Itoa(n.PageTokens)),
		field("geometry", n.Geometry),
		field("rope", n.RoPE),
		field("tenant", n.Tenant),
		field("seal", n.Seal),
		field("exact", n.Exact),
	}
	sort.Strings(all)
	return all
}

// String returns the namespace in words: what the digest covers, one field
// after the other.
func (n Namespace) String() string { return strings.Join(n.fields(), " ") }

// Model returns the short form that keys carry and the chain starts from:
// the label, "@" and the first 32 hexadecimal digits of the SHA-256 of the
// namespace in words. Slashes, blanks and other characters in the label that
// would not read well in a key become "-".
func (n Namespace) Model() string {
	digest := sha256.Sum256([]byte("ollamoon namespace 1\n" + strings.Join(n.fields(), "\n")))
	return fmt.Sprintf("%s@%s", cleanLabel(n.Label), hex.EncodeToString(digest[:16]))
}

func cleanLabel(label string) string {
	if label == "" {
		return "model"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_', r == ':', r == '-':
			return r
		}
		return '-'
	}, label)
}
