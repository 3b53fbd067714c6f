package page

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"testing"

	"ollamoon/prefix"
)

func TestLayoutBytes(t *testing.T) {
	for _, c := range []struct {
		layout Layout
		want   int
	}{
		{Layout{Layers: 28, KVHeads: 4, HeadDim: 128, PageTokens: 256, ElementBytes: 2}, 14680064},
		{Layout{Layers: 4, KVHeads: 2, HeadDim: 16, PageTokens: 8, ElementBytes: 2}, 4096},
		{Layout{Layers: 30, KVHeads: 3, HeadDim: 64, PageTokens: 256, ElementBytes: 2}, 256 * 23040},
	} {
		if err := c.layout.Validate(); err != nil {
			t.Error(err)
		}
		if got := c.layout.Bytes(); got != c.want {
			t.Errorf("%+v has %d bytes, want %d", c.layout, got, c.want)
		}
	}
	for _, bad := range []Layout{{}, {1, 1, 1, -1, 2}, {1 << 40, 1 << 40, 1, 1, 1}, {1 << 31, 1 << 31, 1, 1, 1}} {
		if err := bad.Validate(); !errors.Is(err, ErrLayout) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestSectionKey(t *testing.T) {
	if got := Full.Key("mc/ollama/m/ab"); got != "mc/ollama/m/ab" {
		t.Errorf("the full section's key is %s", got)
	}
	if got := Sliding.Key("mc/ollama/m/ab"); got != "mc/ollama/m/ab/sliding" {
		t.Errorf("the sliding section's key is %s", got)
	}
}

func sealers(t testing.TB) map[string]*Sealer {
	t.Helper()
	keyed, err := NewKeyedSealer(bytes.Repeat([]byte{7}, KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*Sealer{"checksum": {}, "mac": keyed}
}

var testID = ID{Hash: prefix.Hash{1, 2, 3}, Section: Sliding}

func sealed(t testing.TB, s *Sealer, payload string, id ID) []byte {
	t.Helper()
	object := append([]byte(payload), make([]byte, TrailerBytes)...)
	if err := s.Seal(object, id); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestSealAndOpen(t *testing.T) {
	for name, s := range sealers(t) {
		for _, payload := range []string{"", "x", "some payload that is longer than a word"} {
			got, err := s.Open(sealed(t, s, payload, testID), testID)
			if err != nil || string(got) != payload {
				t.Errorf("%s: opened %q, %v; want %q", name, got, err, payload)
			}
		}
		if err := s.Seal(make([]byte, TrailerBytes-1), testID); err == nil {
			t.Errorf("%s: an object without room was sealed", name)
		}
	}
}

// Any single flipped bit, payload or trailer, is found.
func TestEveryBitCounts(t *testing.T) {
	for name, s := range sealers(t) {
		object := sealed(t, s, "payload of a page", testID)
		for bit := range 8 * len(object) {
			object[bit/8] ^= 1 << (bit % 8)
			if _, err := s.Open(object, testID); !errors.Is(err, ErrSeal) || Reason(err) == "" {
				t.Fatalf("%s: bit %d flipped: %v", name, bit, err)
			}
			object[bit/8] ^= 1 << (bit % 8)
		}
	}
}

// A page that is checked as it arrives, in pieces of any size, also when it
// arrives anew, is the page that is checked whole.
func TestCheckAsItArrives(t *testing.T) {
	for name, s := range sealers(t) {
		payload := bytes.Repeat([]byte("0123456789abcdef"), 1000)
		object := sealed(t, s, string(payload), testID)
		for _, steps := range [][]int{nil, {0}, {1, 2, 3}, {100, 7000, len(object)}, {5000, 300, 9000}, {len(object), 10}, {len(object) - 5}, {len(payload) + 10}} {
			into := make([]byte, len(object))
			check := s.Check(into, testID)
			for _, n := range steps {
				copy(into, object[:n])
				check.Arrived(n)
			}
			copy(into, object)
			if got, err := check.Open(); err != nil || !bytes.Equal(got, payload) {
				t.Errorf("%s, %v: %v", name, steps, err)
			}
		}
		// What arrives anew with other bytes is not the page.
		into := bytes.Clone(object)
		check := s.Check(into, testID)
		check.Arrived(len(into))
		into[5]++
		check.Arrived(6)
		if _, err := check.Open(); !errors.Is(err, ErrSum) {
			t.Errorf("%s: other bytes that arrived anew: %v", name, err)
		}
	}
}

func TestOpenNamesTheReason(t *testing.T) {
	all := sealers(t)
	s := all["checksum"]
	object := sealed(t, s, "payload", testID)
	otherKey, _ := NewKeyedSealer(bytes.Repeat([]byte{8}, KeyBytes))
	otherHash, otherSection := testID, testID
	otherHash.Hash[31]++
	otherSection.Section = Full
	for _, c := range []struct {
		name   string
		sealer *Sealer
		object []byte
		id     ID
		want   error
		reason string
	}{
		{"truncated", s, object[:len(object)-1], testID, ErrUnsealed, "unsealed"},
		{"nothing", s, nil, testID, ErrLength, "length"},
		{"zeroes", s, make([]byte, len(object)), testID, ErrUnsealed, "unsealed"},
		{"payload lost at its start", s, object[1:], testID, ErrLength, "length"},
		{"another hash", s, object, otherHash, ErrForeign, "foreign"},
		{"another section", s, object, otherSection, ErrForeign, "foreign"},
		{"checksum where a MAC is asked for", all["mac"], object, testID, ErrKind, "kind"},
		{"MAC where a checksum is asked for", s, sealed(t, all["mac"], "payload", testID), testID, ErrKind, "kind"},
		{"another key", otherKey, sealed(t, all["mac"], "payload", testID), testID, ErrSum, "sum"},
	} {
		_, err := c.sealer.Open(c.object, c.id)
		if !errors.Is(err, c.want) || !errors.Is(err, ErrSeal) || Reason(err) != c.reason {
			t.Errorf("%s: %v (reason %q), want %v", c.name, err, Reason(err), c.want)
		}
	}
	if got := Reason(errors.New("other")); got != "" {
		t.Errorf("reason %q of an unrelated error", got)
	}
}

// The format is what other processes and later versions read: it must not move.
func TestSealIsStable(t *testing.T) {
	for name, s := range sealers(t) {
		object := sealed(t, s, "ab", testID)
		golden := map[string]string{
			"checksum": "4f4d504701010100020000000000000001020300000000000000000000000000000000000000000000000000000000006f628b5ba79bdbdc837b9204896bee1f00000000000000000000000000000000",
			"mac":      "4f4d5047010102000200000000000000010203000000000000000000000000000000000000000000000000000000000060a77c5f14d6cce54b11af4e3cbbff507bd99067410555b0619d484e4b1e1e3d",
		}[name]
		if got := hex.EncodeToString(object[2:]); got != golden {
			t.Errorf("%s: the trailer is\n%s, want\n%s", name, got, golden)
		}
	}
}

func TestKeyLength(t *testing.T) {
	if _, err := NewKeyedSealer(make([]byte, KeyBytes-1)); err == nil {
		t.Error("a short key was taken")
	}
}

func FuzzOpen(f *testing.F) {
	s := &Sealer{}
	f.Add(sealed(f, s, "payload", testID))
	f.Add([]byte{})
	f.Add(make([]byte, TrailerBytes))
	f.Fuzz(func(t *testing.T, object []byte) {
		payload, err := s.Open(object, testID)
		if err != nil {
			if !errors.Is(err, ErrSeal) {
				t.Fatalf("an error that does not wrap ErrSeal: %v", err)
			}
			return
		}
		if again := sealed(t, s, string(payload), testID); !bytes.Equal(again, object) {
			t.Fatalf("an object was opened that sealing does not make")
		}
	})
}

// Pages as large as the demo's, eight of them in turn so that they come from
// memory and not from the processor's cache. Memcpy is the limit to hold
// against.
func BenchmarkOpen(b *testing.B) {
	const size = 14680064
	pages := make([][]byte, 8)
	for i := range pages {
		pages[i] = make([]byte, size+TrailerBytes)
		for j := 0; j < size; j += 8 {
			pages[i][j] = byte(rand.Int32())
		}
	}
	for name, s := range sealers(b) {
		for i := range pages {
			if err := s.Seal(pages[i], testID); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for i := 0; b.Loop(); i++ {
				if _, err := s.Open(pages[i%len(pages)], testID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("memcpy", func(b *testing.B) {
		b.SetBytes(size)
		dst := make([]byte, size)
		for i := 0; b.Loop(); i++ {
			copy(dst, pages[i%len(pages)])
		}
	})
}
