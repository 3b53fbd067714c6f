package slotfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

const pageTokens = 4

// shapes are small caches of every form that can be cut.
func shapes() map[string]Shape {
	rows := func(layers, size int) (r []Rows) {
		for range layers {
			r = append(r, Rows{Type: 1, Bytes: size})
		}
		return r
	}
	plain := SectionShape{Streams: 1, Keys: rows(3, 8), Values: rows(3, 8)}
	transposed := SectionShape{
		Streams: 1, Transposed: true, Keys: rows(2, 8),
		Values: []Rows{{Type: 1, Bytes: 8, Elements: 4}, {Type: 0, Bytes: 16, Elements: 4}},
	}
	streams := plain
	streams.Streams, streams.Stream, streams.Sequence = 4, 2, 2
	uneven := SectionShape{Streams: 1, Keys: []Rows{{8, 34, 0}, {1, 8, 0}}, Values: []Rows{{8, 17, 0}, {1, 6, 0}}}
	return map[string]Shape{
		"plain":             {Version: 2, Tagged: true, Sections: []SectionShape{plain}},
		"older tokens":      {Version: 2, Sections: []SectionShape{plain}},
		"transposed values": {Version: 2, Tagged: true, Sections: []SectionShape{transposed}},
		"four streams":      {Version: 2, Tagged: true, Sections: []SectionShape{streams}},
		"uneven rows":       {Version: 2, Tagged: true, Sections: []SectionShape{uneven}},
		"sliding window":    {Version: 2, Tagged: true, Sections: []SectionShape{plain, transposed}},
	}
}

func randomPages(s *SectionShape, first, n int) Pages {
	p := Pages{First: first}
	for range n {
		payload := make([]byte, s.PageBytes(pageTokens))
		for i := range payload {
			payload[i] = byte(rand.Uint32())
		}
		p.Payloads = append(p.Payloads, payload)
	}
	return p
}

func parse(file []byte) (*File, error) {
	return Parse(bytes.NewReader(file), int64(len(file)), 1000)
}

// made is a file of three pages, the second section holding the last two only.
func made(t testing.TB, shape Shape) (file []byte, tokens []int32, pages []Pages) {
	t.Helper()
	for i := range 3 * pageTokens {
		tokens = append(tokens, int32(100+i))
	}
	for i := range shape.Sections {
		pages = append(pages, randomPages(&shape.Sections[i], i, 3-i))
	}
	var b bytes.Buffer
	if err := shape.Write(&b, tokens, pageTokens, pages); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), tokens, pages
}

func TestPagesSurviveAFile(t *testing.T) {
	for name, shape := range shapes() {
		t.Run(name, func(t *testing.T) {
			data, tokens, pages := made(t, shape)
			f, err := parse(data)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(f.Shape, shape) || !reflect.DeepEqual(f.Tokens, tokens) {
				t.Fatalf("parsed\n%+v %v, want\n%+v %v", f.Shape, f.Tokens, shape, tokens)
			}
			for i := range f.Sections {
				s := &f.Sections[i]
				if complete := s.Complete(len(tokens)); complete != (i == 0) {
					t.Errorf("section %d: complete is %t", i, complete)
				}
				for page := range 4 {
					payload := make([]byte, s.Shape.PageBytes(pageTokens))
					err := s.ReadPage(payload, page, pageTokens)
					if page < pages[i].First || page == 3 {
						if !errors.Is(err, ErrPage) || s.HasPage(page, pageTokens) {
							t.Errorf("section %d page %d, which is not there: %v", i, page, err)
						}
						continue
					}
					if err != nil || !bytes.Equal(payload, pages[i].Payloads[page-pages[i].First]) {
						t.Errorf("section %d page %d: other bytes, or %v", i, page, err)
					}
				}
			}
		})
	}
}

// A sliding window's cells are used again in turn, so their order is any.
func TestCellsInAnyOrder(t *testing.T) {
	shape := shapes()["plain"]
	shape.Sections[0].Keys = shape.Sections[0].Keys[:1]
	shape.Sections[0].Values = nil
	positions := []int32{6, 7, 4, 5, 2, 3}
	var b bytes.Buffer
	word := func(v ...int32) {
		for _, v := range v {
			_ = binary.Write(&b, binary.LittleEndian, v)
		}
	}
	word(fileMagic, 2, 12, -1, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, int32(len(positions)))
	for _, p := range positions {
		word(p, 1, 0)
	}
	word(0, 1, 1, 4, 0)
	for _, p := range positions {
		word(p * 11)
	}
	// The values of the layer: the same again.
	word(1, 4, 0)
	for _, p := range positions {
		word(p * 13)
	}
	f, err := parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	s := &f.Sections[0]
	if s.HasPage(0, pageTokens) || s.Complete(8) || s.Complete(6) {
		t.Error("a page without all its tokens, or out of order, passes for whole")
	}
	payload := make([]byte, s.Shape.PageBytes(pageTokens))
	if err := s.ReadPage(payload, 1, pageTokens); err != nil {
		t.Fatal(err)
	}
	var got []int32
	for i := 0; i < len(payload); i += 4 {
		got = append(got, int32(binary.LittleEndian.Uint32(payload[i:])))
	}
	if want := []int32{44, 55, 66, 77, 52, 65, 78, 91}; !reflect.DeepEqual(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
}

// A file whose cells are turned has the same pages.
func TestTurnedCells(t *testing.T) {
	shape := shapes()["plain"]
	straight, tokens, pages := made(t, shape)
	turned := slices.Clone(pages)
	turned[0].Turn = 1
	var b bytes.Buffer
	if err := shape.Write(&b, tokens, pageTokens, turned); err != nil {
		t.Fatal(err)
	}
	if b.Len() != len(straight) || bytes.Equal(b.Bytes(), straight) {
		t.Errorf("%d bytes turned, %d straight", b.Len(), len(straight))
	}
	f, err := parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Sections[0].Positions[0]; got != pageTokens {
		t.Errorf("the first cell is of position %d, want that of the second page", got)
	}
	payload := make([]byte, shape.Sections[0].PageBytes(pageTokens))
	for i, want := range pages[0].Payloads {
		if err := f.Sections[0].ReadPage(payload, i, pageTokens); err != nil || !bytes.Equal(payload, want) {
			t.Errorf("page %d: other bytes, or %v", i, err)
		}
	}
}

func TestOn(t *testing.T) {
	four := shapes()["four streams"].On(3).Sections[0]
	if four.Stream != 3 || four.Sequence != 3 {
		t.Errorf("four streams on slot 3: %+v", four)
	}
	one := shapes()["plain"].On(3).Sections[0]
	if one.Stream != 0 || one.Sequence != 3 {
		t.Errorf("one stream on slot 3: %+v", one)
	}
	if orig := shapes()["four streams"]; orig.On(3).Sections[0].Stream == orig.Sections[0].Stream {
		t.Error("the shape itself has moved")
	}
}

func TestGeometryTellsFormsApart(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"plain", "transposed values", "uneven rows"} {
		g := shapes()[name].Sections[0].Geometry()
		if other, ok := seen[g]; ok {
			t.Errorf("%s and %s are both %s", name, other, g)
		}
		seen[g] = name
	}
	if a, b := shapes()["plain"].Sections[0], shapes()["four streams"].Sections[0]; a.Geometry() != b.Geometry() {
		t.Errorf("the slot enters the geometry: %s, %s", a.Geometry(), b.Geometry())
	}
	if g := shapes()["plain"].Sections[0].Geometry(); g != "transposed=false keys=3x(type 1, 8 bytes) values=3x(type 1, 8 bytes)" {
		t.Errorf("geometry %q", g)
	}
}

func TestParseRefuses(t *testing.T) {
	good, _, _ := made(t, shapes()["plain"])
	word := func(i int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[4*i:], v)
		return b
	}
	// Words: 0 magic, 1 version, 2 count (16), 3 -1, 4 form, 5 tokens (12), 6-17
	// tokens, 18 media, 19 streams, 20 cells (12), 21- cells of three, 57
	// transposed, 58 layers, 59 type, 60 row bytes.
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"nothing":                {nil, ErrFormat},
		"another magic":          {word(0, 7), ErrFormat},
		"another version":        {word(1, 3), ErrUnsupported},
		"a false count":          {word(2, 1<<31), ErrFormat},
		"an unknown form":        {word(4, 2), ErrUnsupported},
		"fewer tokens":           {word(5, 11), ErrUnsupported},
		"more tokens":            {word(5, 13), ErrFormat},
		"media":                  {word(18, 1), ErrUnsupported},
		"many streams":           {word(19, 1<<30), ErrFormat},
		"no streams":             {word(19, 0), ErrFormat},
		"a false cell count":     {word(20, 1<<30), ErrFormat},
		"more cells than tokens": {word(20, 900), ErrFormat},
		"two sequences a cell":   {word(22, 2), ErrUnsupported},
		"another kind of state":  {word(57, 9), ErrUnsupported},
		"false layers":           {word(58, 1<<20), ErrFormat},
		"false rows":             {word(60, 1<<30), ErrFormat},
		"no cache":               {good[:4*19], ErrFormat},
	} {
		if _, err := parse(c.file); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for n := range good {
		if _, err := parse(good[:n]); !errors.Is(err, ErrFormat) {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
	}
	if _, err := Parse(bytes.NewReader(good), int64(len(good)), 11); !errors.Is(err, ErrFormat) {
		t.Errorf("more tokens than the context has: %v", err)
	}
}

func TestWriteRefuses(t *testing.T) {
	shape := shapes()["plain"]
	_, tokens, pages := made(t, shape)
	for name, write := range map[string]func() error{
		"part of a page": func() error { return shape.Write(&bytes.Buffer{}, tokens[:11], pageTokens, pages) },
		"no tokens":      func() error { return shape.Write(&bytes.Buffer{}, nil, pageTokens, pages) },
		"more tokens":    func() error { return shape.Write(&bytes.Buffer{}, append(tokens, 1, 2, 3, 4), pageTokens, pages) },
		"no section":     func() error { return shape.Write(&bytes.Buffer{}, tokens, pageTokens, nil) },
		"a page of another": func() error {
			return shape.Write(&bytes.Buffer{}, tokens[:4], pageTokens, []Pages{{Payloads: [][]byte{{1}}}})
		},
		"pages before a gap": func() error {
			return shape.Write(&bytes.Buffer{}, tokens, pageTokens, []Pages{{Payloads: pages[0].Payloads[:2]}})
		},
		"a turn past the pages": func() error {
			return shape.Write(&bytes.Buffer{}, tokens, pageTokens, []Pages{{Payloads: pages[0].Payloads, Turn: 9}})
		},
		"a page before first": func() error {
			return shape.Write(&bytes.Buffer{}, tokens, pageTokens, []Pages{{First: -1, Payloads: pages[0].Payloads}})
		},
	} {
		if err := write(); !errors.Is(err, ErrPage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, shape := range shapes() {
		file, _, _ := made(f, shape)
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse(data)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("an untyped error: %v", err)
			}
			return
		}
		for i := range file.Sections {
			s := &file.Sections[i]
			if n := s.Shape.PageBytes(pageTokens); n < 1<<20 && s.HasPage(0, pageTokens) {
				if err := s.ReadPage(make([]byte, n), 0, pageTokens); err != nil {
					t.Fatalf("a page that is there cannot be read: %v", err)
				}
			}
		}
	})
}
