package shm

import (
	"errors"
	"fmt"

	"ollamoon/mooncake/structpack"
)

// service is the class whose functions a mooncake_client serves.
const service = "mooncake::RealClient::"

// A clientID is what a session calls itself.
type clientID = [2]uint64

// noDevice is the int32 -1: memory of no accelerator.
const noDevice = 0xffffffff

var (
	keyList     = structpack.Vector(structpack.String)
	numbers     = structpack.Vector(structpack.U64)
	getRequest  = structpack.Struct(keyList, numbers, numbers, structpack.I32, structpack.UUID)
	mappedArg   = structpack.Struct(structpack.U64, structpack.UUID)
	putAnswer   = structpack.Vector(structpack.Expected(structpack.Void, structpack.I32))
	getAnswer   = structpack.Vector(structpack.Expected(structpack.I64, structpack.I32))
	pingAnswer  = structpack.Expected(structpack.Struct(structpack.I64, structpack.I32), structpack.I32)
	boolAnswer  = structpack.Expected(structpack.Bool, structpack.I32)
	unmapAnswer = structpack.Expected(structpack.Void, structpack.I32)
)

func encodePut(items []Item, address func(int) uint64, id clientID, configType structpack.Type, config func(*structpack.Writer)) []byte {
	t := structpack.Struct(keyList, numbers, numbers, configType, structpack.I32, structpack.UUID)
	return structpack.Encode(t, func(w *structpack.Writer) {
		writeItems(w, items, address)
		config(w)
		w.U32(noDevice)
		w.UUID(id)
	})
}

func encodeGet(items []Item, address func(int) uint64, id clientID) []byte {
	return structpack.Encode(getRequest, func(w *structpack.Writer) {
		writeItems(w, items, address)
		w.U32(noDevice)
		w.UUID(id)
	})
}

// writeItems appends keys, addresses and sizes.
func writeItems(w *structpack.Writer, items []Item, address func(int) uint64) {
	structpack.WriteSlice(w, items, func(item Item) { w.String(item.Key) })
	w.Len(len(items))
	for i := range items {
		w.U64(address(i))
	}
	structpack.WriteSlice(w, items, func(item Item) { w.U64(uint64(len(item.Bytes))) })
}

func encodeID(id clientID) []byte {
	return structpack.Encode(structpack.UUID, func(w *structpack.Writer) { w.UUID(id) })
}

func encodeMapped(base uint64, id clientID) []byte {
	return structpack.Encode(mappedArg, func(w *structpack.Writer) {
		w.U64(base)
		w.UUID(id)
	})
}

func decodePut(body []byte, items []Item) ([]Result, error) {
	var results []Result
	err := structpack.Decode(putAnswer, body, func(r *structpack.Reader) {
		results = structpack.ReadSlice(r, func() Result {
			if r.Bool() {
				return Result{}
			}
			return Result{Code: Code(r.I32())}
		})
	})
	return checked(results, err, items)
}

func decodeGet(body []byte, items []Item) ([]Result, error) {
	var results []Result
	bad := false
	err := structpack.Decode(getAnswer, body, func(r *structpack.Reader) {
		results = structpack.ReadSlice(r, func() Result {
			if !r.Bool() {
				return Result{Code: Code(r.I32())}
			}
			n := r.I64()
			i := int(n)
			bad = bad || n < 0 || int64(i) != n
			return Result{Bytes: i}
		})
	})
	if err == nil && bad {
		err = fmt.Errorf("%w: a length that no object has", structpack.ErrFormat)
	}
	return checked(results, err, items)
}

// checked refuses an answer that does not fit the question.
func checked(results []Result, err error, items []Item) ([]Result, error) {
	if err != nil {
		return nil, err
	}
	if len(results) != len(items) {
		return nil, fmt.Errorf("%w: %d results for %d items", structpack.ErrFormat, len(results), len(items))
	}
	for i, r := range results {
		if r.Bytes > len(items[i].Bytes) {
			return nil, fmt.Errorf("%w: %d bytes got into %d", structpack.ErrFormat, r.Bytes, len(items[i].Bytes))
		}
	}
	return results, nil
}

// errCode is a failure of a call that has only one result.
var errCode = errors.New("shm: the process answers with a code")

func decodePing(body []byte) error {
	return decodeOne(pingAnswer, body, func(r *structpack.Reader) {
		_, _ = r.I64(), r.I32() // the master's view, and whether the process reaches it
	})
}

func decodeMapped(body []byte) (bool, error) {
	mapped := false
	err := decodeOne(boolAnswer, body, func(r *structpack.Reader) { mapped = r.Bool() })
	return mapped && err == nil, err
}

func decodeUnmap(body []byte) error { return decodeOne(unmapAnswer, body, func(*structpack.Reader) {}) }

func decodeOne(t structpack.Type, body []byte, value func(*structpack.Reader)) error {
	code := Code(0)
	err := structpack.Decode(t, body, func(r *structpack.Reader) {
		if r.Bool() {
			value(r)
		} else {
			code = Code(r.I32())
		}
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("%w: %d", errCode, code)
	}
	return err
}
