package storetest

import (
	"errors"
	"strings"
	"testing"

	"ollamoon/store"
)

func testKeys(t *testing.T, _ Config, s store.Store) {
	unique := newKey()
	long := func(n int) string { return unique + strings.Repeat("k", n-len(unique)) }
	for _, c := range []struct {
		name, key string
		refusable bool
	}{
		{"a page's", "mc/ollama/" + unique, false},
		{"a section's", unique + "/sliding", false},
		{"the longest", long(store.MaxKeyBytes), false},
		{"one longer than a file name", long(300), false},
		{"blanks", unique + " a b", false},
		{"marks", unique + `@:;,?&=%+#!*'"\|<>()[]{}$~` + "`", false},
		{"percent escapes", unique + "%2f%00%", false},
		{"UTF-8", unique + "模型-é-🦙", false},
		{"case", strings.ToUpper(unique), false},
		{"a leading slash", "/" + unique, false},
		{"a trailing slash", unique + "/", false},
		{"two slashes", unique + "//x", false},
		{"a parent", unique + "/../x", false},
		{"a way out", "../../../../../../../../tmp/" + unique, false},
		{"dots", unique + "/./.", false},
		{"a leading dash", "-rf" + unique, false},
		{"a decomposed letter", unique + "e\u0301", false},
		{"a line end", unique + "\n", true},
		{"a NUL", unique + "\x00x", true},
		{"no UTF-8", unique + "\xff\xfe", true},
	} {
		object := content(c.key, 500)
		err := batchPut(t, s, []store.Item{{Key: c.key, Bytes: object}})[0]
		if c.refusable && errors.Is(err, store.ErrBadKey) {
			if exist(t, s, c.key)[0] {
				t.Errorf("%s: a refused key has an object", c.name)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: putting: %v", c.name, err)
			continue
		}
		if !exist(t, s, c.key)[0] {
			t.Errorf("%s: the object is not there", c.name)
		}
		// Other keys' objects came after: each key has to have its own.
		defer func() {
			holds(t, s, c.key, object)
			discard(t, s, c.key)
		}()
	}
	for _, near := range []string{"x", unique + "/x", unique + "/.", unique, "storetest", unique + "%2f"} {
		if exist(t, s, near)[0] {
			t.Errorf("%q has an object that another key was given", near)
		}
	}
	refused(t, s, "an empty key", "")
	refused(t, s, "a long key", long(store.MaxKeyBytes+1))
	refused(t, s, "a very long key", long(1<<20))
}

func refused(t *testing.T, s store.Store, name, key string) {
	t.Helper()
	if err := batchPut(t, s, []store.Item{{Key: key, Bytes: []byte("x")}})[0]; !errors.Is(err, store.ErrBadKey) {
		t.Errorf("%s: putting: %v", name, err)
	}
	if _, err := get(t, s, key, 1); !errors.Is(err, store.ErrBadKey) {
		t.Errorf("%s: reading: %v", name, err)
	}
	if exist(t, s, key)[0] {
		t.Errorf("%s has an object", name)
	}
	discard(t, s, key)
}
