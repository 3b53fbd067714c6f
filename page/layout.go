package page

import (
	"errors"
	"fmt"
	"math/bits"
)

// ErrLayout is returned for a layout with a field that is not positive or
// whose page would not fit a signed 63-bit length.
var ErrLayout = errors.New("page: bad layout")

// A Layout is the geometry of one section of a KV cache, as pull request 2800
// has it.
type Layout struct {
	Layers       int // layers that keep keys and values in this section
	KVHeads      int // key/value heads a layer, after grouping
	HeadDim      int // elements a head
	PageTokens   int // tokens a page
	ElementBytes int // bytes an element: 2 for f16
}

// Validate returns nil or an error that wraps ErrLayout.
func (l Layout) Validate() error {
	size := uint64(2)
	for _, f := range []struct {
		name  string
		value int
	}{
		{"layers", l.Layers},
		{"KV heads", l.KVHeads},
		{"head dimension", l.HeadDim},
		{"page tokens", l.PageTokens},
		{"element bytes", l.ElementBytes},
	} {
		if f.value <= 0 {
			return fmt.Errorf("%w: %s must be positive, not %d", ErrLayout, f.name, f.value)
		}
		high, low := bits.Mul64(size, uint64(f.value))
		if high != 0 || low > 1<<62 {
			return fmt.Errorf("%w: a page is too large", ErrLayout)
		}
		size = low
	}
	return nil
}

// Bytes returns the size of a page's payload: keys and values of all layers,
// 2 * layers * heads * dim * tokens * element bytes.
func (l Layout) Bytes() int {
	return 2 * l.Layers * l.KVHeads * l.HeadDim * l.PageTokens * l.ElementBytes
}

// A Section is a part of the cache that is stored in objects of its own: a
// prefix may be of use with all pages of one section and only the last ones of
// another.
type Section uint8

const (
	// Full is the section of layers that attend to the whole context.
	Full Section = 0
	// Sliding is the section of layers that attend to a window: only the pages
	// of the window at the end of a prefix are needed.
	Sliding Section = 1
)

// String returns the section's name.
func (s Section) String() string {
	switch s {
	case Full:
		return "full"
	case Sliding:
		return "sliding"
	}
	return fmt.Sprintf("section %d", uint8(s))
}

// Key returns the key of the section's object for a page with the given key.
// The full section has the page's key itself, as in pull request 2800.
func (s Section) Key(pageKey string) string {
	if s == Full {
		return pageKey
	}
	return fmt.Sprintf("%s/%s", pageKey, s)
}
