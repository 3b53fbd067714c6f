package file

import (
	"errors"
	"fmt"
	"testing"

	"ollamoon/store"
)

// The demo's reload: seven pages, here from the page cache. Memcpy of the same
// bytes is the limit to hold against.
const (
	benchPages = 7
	benchBytes = 14680064
)

func benchItems() []store.Item {
	items := make([]store.Item, benchPages)
	for i := range items {
		items[i] = store.Item{Key: fmt.Sprint("page ", i), Bytes: make([]byte, benchBytes)}
		for j := 0; j < benchBytes; j += 512 {
			items[i].Bytes[j] = byte(i + j)
		}
	}
	return items
}

func BenchmarkGet(b *testing.B) {
	s := open(b, newDir(b), 1<<30)
	items := benchItems()
	if err := errors.Join(s.BatchPut(b.Context(), items)...); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(benchPages * benchBytes)
	for b.Loop() {
		if err := errors.Join(s.BatchGet(b.Context(), items)...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPut(b *testing.B) {
	s := open(b, newDir(b), 1<<30)
	items := benchItems()
	b.SetBytes(benchPages * benchBytes)
	for round := 0; b.Loop(); round++ {
		for i := range items {
			items[i].Key = fmt.Sprint("round ", round, " page ", i)
		}
		if err := errors.Join(s.BatchPut(b.Context(), items)...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemcpy(b *testing.B) {
	from, to := benchItems(), benchItems()
	b.SetBytes(benchPages * benchBytes)
	for b.Loop() {
		for i := range from {
			copy(to[i].Bytes, from[i].Bytes)
		}
	}
}

// Pages of the tiny layout: what an object costs besides its bytes.
func BenchmarkSmallObjects(b *testing.B) {
	const size = 4096 + 80
	items := make([]store.Item, 64)
	for i := range items {
		items[i].Bytes = make([]byte, size)
	}
	name := func(round int) {
		for i := range items {
			items[i].Key = fmt.Sprint("round ", round, " object ", i)
		}
	}
	b.Run("put", func(b *testing.B) {
		s := open(b, newDir(b), 1<<30)
		for round := 0; b.Loop(); round++ {
			name(round)
			if err := errors.Join(s.BatchPut(b.Context(), items)...); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(items)), "µs/object")
	})
	b.Run("put and evict", func(b *testing.B) {
		s := open(b, newDir(b), 1024*blocks(size+100))
		for round := 0; b.Loop(); round++ {
			name(round)
			if err := errors.Join(s.BatchPut(b.Context(), items)...); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(items)), "µs/object")
	})
	b.Run("get", func(b *testing.B) {
		s := open(b, newDir(b), 1<<30)
		name(0)
		_ = s.BatchPut(b.Context(), items)
		for b.Loop() {
			if err := errors.Join(s.BatchGet(b.Context(), items)...); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(items)), "µs/object")
	})
}
