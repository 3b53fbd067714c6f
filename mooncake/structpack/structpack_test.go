package structpack

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Captured from Mooncake 0.3.13.post1's Python client and master.
const (
	existRequest  = "d91ef97c04fd800c800cff00026b320764656661756c74"
	existResponse = "d300e89004870b01000100"
	pingResponse  = "eb68b59c0487fd800c0b04ff01000100010000000000000000"
)

var (
	keyAndTenant = Struct(String, String)
	existence    = Expected(Bool, I32)
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEncodeWritesWhatMooncakesClientWrites(t *testing.T) {
	got := Encode(keyAndTenant, func(w *Writer) {
		w.String("k2")
		w.String("default")
	})
	if want := unhex(t, existRequest); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

func TestDecodeReadsWhatTheMasterWrites(t *testing.T) {
	ok, present := false, true
	err := Decode(existence, unhex(t, existResponse), func(r *Reader) {
		ok, present = r.Bool(), r.Bool()
	})
	if err != nil || !ok || present {
		t.Errorf("%v, %v, %v", ok, present, err)
	}
}

func TestTypesAreDistinct(t *testing.T) {
	types := []Type{
		{},
		I32, U32, I64, U64, U8, U16, Bool, Void, String, UUID, Struct(U64, U64), Vector(U64), Optional(U64),
		Variant(U64), Variant(U64, U64), Expected(U64, I32), Struct(Vector(U64), String), Struct(Vector(Struct(U64)), String),
	}
	codes := map[uint32]Type{}
	for _, typ := range types {
		if other, ok := codes[typ.code()]; ok {
			t.Errorf("%s and %s have one code", typ, other)
		}
		codes[typ.code()] = typ
	}
}

func TestLengthsWidenWithTheLongestContainer(t *testing.T) {
	typ := Struct(Vector(String), U32)
	for _, c := range []struct{ elements, length, width int }{
		{0, 0, 1},
		{255, 255, 1},
		{256, 1, 2},
		{3, 256, 2},
		{2, 65535, 2},
		{65536, 0, 4},
		{1, 65536, 4},
	} {
		elements := slices.Repeat([]string{strings.Repeat("x", c.length)}, c.elements)
		message := Encode(typ, func(w *Writer) {
			WriteSlice(w, elements, w.String)
			w.U32(7)
		})
		header := 4 + 1 + len(typ.literal) + 1
		if want := header + c.width + c.elements*(c.width+c.length) + 4; len(message) != want {
			t.Errorf("%d of length %d: %d bytes, want %d", c.elements, c.length, len(message), want)
		}
		var got []string
		err := Decode(typ, message, func(r *Reader) {
			got = ReadSlice(r, r.String)
			if n := r.U32(); n != 7 {
				t.Errorf("the field behind the vector is %d", n)
			}
		})
		if err != nil || !slices.Equal(got, elements) {
			t.Errorf("%d of length %d: %v", c.elements, c.length, err)
		}
	}
}

func TestReadsLengthsOfEightBytes(t *testing.T) {
	message := unhex(t, "0000000018"+"0300000000000000"+"616263")
	binary.LittleEndian.PutUint32(message, String.code()|1)
	var got string
	if err := Decode(String, message, func(r *Reader) { got = r.String() }); err != nil || got != "abc" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDecodeWithoutLiteralOrMeta(t *testing.T) {
	message := append(binary.LittleEndian.AppendUint32(nil, Bool.code()), 1)
	var got bool
	if err := Decode(Bool, message, func(r *Reader) { got = r.Bool() }); err != nil || !got {
		t.Errorf("%v, %v", got, err)
	}
}

func TestScalarsRoundTrip(t *testing.T) {
	typ := Struct(U8, U16, U32, U64, I32, I64, Bool, UUID, Optional(U64), Variant(U8, String))
	message := Encode(typ, func(w *Writer) {
		w.U8(200)
		w.U16(60000)
		w.U32(4e9)
		w.U64(1 << 63)
		w.I32(-704)
		w.I64(-1 << 62)
		w.Bool(true)
		w.UUID([2]uint64{1, 2})
		w.Bool(false)
		w.U8(1)
		w.String("disk")
	})
	err := Decode(typ, message, func(r *Reader) {
		for i, same := range []bool{
			r.U8() == 200, r.U16() == 60000, r.U32() == 4e9, r.U64() == 1<<63, r.I32() == -704, r.I64() == -1<<62,
			r.Bool(), r.UUID() == [2]uint64{1, 2}, !r.Bool(), r.Alternative(2) == 1, r.String() == "disk",
		} {
			if !same {
				t.Errorf("field %d differs", i)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAnotherTypeIsATypeError(t *testing.T) {
	err := Decode(existence, unhex(t, pingResponse), func(*Reader) { t.Error("read is called") })
	var typeError *TypeError
	if !errors.As(err, &typeError) {
		t.Fatal(err)
	}
	if typeError.Want != existence || typeError.Got != Expected(Struct(String, Bool, U64), I32) {
		t.Error(err)
	}
}

func TestMalformedMessages(t *testing.T) {
	good := unhex(t, existResponse)
	cases := map[string][]byte{
		"empty":             {},
		"half a code":       good[:3],
		"no meta":           good[:4],
		"endless literal":   good[:6],
		"no value":          good[:9],
		"half a value":      good[:10],
		"left over":         append(slices.Clone(good), 0),
		"bool of 2":         append(slices.Clone(good[:10]), 2),
		"meta with a size":  slices.Concat(good[:4], []byte{0x05}, good[5:]),
		"meta of no layout": slices.Concat(good[:4], []byte{0x24}, good[5:]),
	}
	for name, message := range cases {
		err := Decode(existence, message, func(r *Reader) { _, _ = r.Bool(), r.Bool() })
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALengthBeyondTheMessageTakesNoMemory(t *testing.T) {
	typ := Vector(U64)
	message := Encode(typ, func(w *Writer) { w.Len(1 << 20) })
	allocated := testing.AllocsPerRun(10, func() {
		if err := Decode(typ, message, func(r *Reader) { ReadSlice(r, r.U64) }); !errors.Is(err, ErrFormat) {
			t.Error(err)
		}
	})
	if allocated > 20 {
		t.Errorf("%v allocations", allocated)
	}
}

// FuzzDecode reads arbitrary bytes as a type with all composites in it: nothing
// panics, and every failure is one of the two kinds.
func FuzzDecode(f *testing.F) {
	typ := Struct(Vector(Expected(Struct(String, Optional(U64)), I32)), Variant(U8, UUID, Vector(String)))
	f.Add(Encode(typ, func(w *Writer) {
		w.Len(2)
		w.Bool(true)
		w.String("key")
		w.Bool(true)
		w.U64(rand.Uint64())
		w.Bool(false)
		w.I32(-704)
		w.U8(2)
		WriteSlice(w, []string{"a", "b"}, w.String)
	}))
	f.Fuzz(func(t *testing.T, value []byte) {
		header := Encode(typ, func(*Writer) {})
		for _, width := range []byte{0, 1, 2, 3} {
			header[4] = metaLiteral | width<<metaWidthShift
			message := slices.Concat(header, value)
			if err := Decode(typ, message, readFuzzed); err != nil && !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
		}
		if err := Decode(typ, value, readFuzzed); err != nil {
			var typeError *TypeError
			if !errors.Is(err, ErrFormat) && !errors.As(err, &typeError) {
				t.Fatal(err)
			}
		}
	})
}

func readFuzzed(r *Reader) {
	ReadSlice(r, func() string {
		if !r.Bool() {
			_ = r.I32()
			return ""
		}
		s := r.String()
		if r.Bool() {
			_ = r.U64()
		}
		return s
	})
	switch r.Alternative(3) {
	case 0:
		r.U8()
	case 1:
		r.UUID()
	case 2:
		ReadSlice(r, r.String)
	}
}
