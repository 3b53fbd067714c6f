package shm

import (
	"testing"

	"ollamoon/mooncake/structpack"
)

// No answer makes a result that its question cannot have.
func FuzzAnswers(f *testing.F) {
	f.Add(structpack.Encode(putAnswer, func(w *structpack.Writer) {
		w.Len(2)
		w.Bool(true)
		w.Bool(false)
		w.I32(-200)
	}))
	f.Add(structpack.Encode(getAnswer, func(w *structpack.Writer) {
		w.Len(2)
		w.Bool(true)
		w.I64(4096)
		w.Bool(true)
		w.I64(-1)
	}))
	f.Add(structpack.Encode(boolAnswer, func(w *structpack.Writer) {
		w.Bool(true)
		w.Bool(true)
	}))
	f.Add([]byte("\xd3\x00\xe8\x90\x00\x01\x010")) // a bool, and more
	items := []Item{{"a", make([]byte, 4096)}, {"b", make([]byte, 10)}}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, decode := range []func([]byte, []Item) ([]Result, error){decodePut, decodeGet} {
			results, err := decode(body, items)
			if err == nil && len(results) != len(items) {
				t.Fatalf("%d results", len(results))
			}
			for i, r := range results {
				if r.Bytes < 0 || r.Bytes > len(items[i].Bytes) || r.Code != 0 && r.Bytes != 0 {
					t.Errorf("%+v", r)
				}
			}
		}
		if mapped, err := decodeMapped(body); err != nil && mapped {
			t.Error("mapped, and an error")
		}
		_, _ = decodePing(body), decodeUnmap(body)
	})
}
