package mooncake

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"testing"
	"time"

	"ollamoon/mooncake/rpc"
	"ollamoon/mooncake/structpack"
)

// A frame is one line of the capture: what the Python client of Mooncake
// 0.3.13.post1 sent to its master, or got from it.
type frame struct{ header, body []byte }

// capture returns the requests and the answers, by sequence number.
func capture(t *testing.T) (requests, answers map[uint32]frame) {
	t.Helper()
	data, err := os.ReadFile("testdata/rpc_0.3.13.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	requests, answers = map[uint32]frame{}, map[uint32]frame{}
	lines := json.NewDecoder(bytes.NewReader(data))
	for lines.More() {
		var line struct{ Dir, Hdr, Body string }
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		header, err1 := hex.DecodeString(line.Hdr)
		body, err2 := hex.DecodeString(line.Body)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		to := requests
		if line.Dir == "resp" {
			to = answers
		}
		to[binary.LittleEndian.Uint32(header[4:])] = frame{header, body}
	}
	if len(requests) != 12 || len(answers) != 12 {
		t.Fatalf("the capture has %d requests and %d answers", len(requests), len(answers))
	}
	return requests, answers
}

// The writer of the captured puts.
var capturedID = writerID{0x034fb6843e6e1484, 0xe0adc0822ad88ea6}

func TestRequestsAreThoseOfMooncakesClient(t *testing.T) {
	requests, _ := capture(t)
	v := versions[0]
	for seq, c := range map[uint32]struct {
		method string
		body   []byte
	}{
		0:  {"ServiceReady", nil},
		3:  {"BatchExistKey", v.keysRequest([]string{"k2", "k2x"}, "default")},
		7:  {"BatchExistKey", v.keysRequest([]string{"k2", "k2x"}, "default")},
		9:  {"BatchPutStart", v.putStartRequest(capturedID, []string{"k2b1", "k2b2"}, []uint64{1000, 2000}, &ReplicateConfig{}, "default")},
		10: {"BatchPutEnd", v.putEndRequest(capturedID, []string{"k2b1", "k2b2"}, "default")},
		11: {"BatchGetReplicaList", v.keysRequest([]string{"k2b1", "k2b2", "k2nope"}, "default")},
	} {
		want := requests[seq]
		got := rpc.Request(masterService+c.method, seq, c.body)
		if !bytes.Equal(got, append(bytes.Clone(want.header), want.body...)) {
			t.Errorf("%s\ngot  %x\nwant %x%x", c.method, got, want.header, want.body)
		}
	}
}

// The captured owner.
func capturedReplica(id, size, address uint64, done bool) []Replica {
	return []Replica{{
		ID: id, Kind: MemoryReplica, Complete: done, Size: size, Address: address, Protocol: "tcp", Endpoint: "127.0.0.1:12422",
	}}
}

func TestAnswersOfTheMasterAreRead(t *testing.T) {
	_, answers := capture(t)
	v := versions[0]
	check := func(name string, got, want any, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}

	ready, err := decodeServiceReady(answers[0].body)
	check("ServiceReady", ready, "2.0.0", err)

	exist, err := decodeExist(answers[3].body, 2)
	check("BatchExistKey before", exist, []expected[bool]{{value: false}, {value: false}}, err)
	exist, err = decodeExist(answers[7].body, 2)
	check("BatchExistKey after", exist, []expected[bool]{{value: true}, {value: false}}, err)

	started, err := v.decodePutStart(answers[9].body, 2)
	check("BatchPutStart", started, []expected[[]Replica]{
		{value: capturedReplica(5, 1000, 0x7fefc6000c70, false)},
		{value: capturedReplica(6, 2000, 0x7fefc6001070, false)},
	}, err)

	ended, err := decodeOutcomes(answers[10].body, 2)
	check("BatchPutEnd", ended, []error{nil, nil}, err)

	objects, err := v.decodeObjects(answers[11].body, 3)
	check("BatchGetReplicaList", objects, []Object{
		{Replicas: capturedReplica(5, 1000, 0x7fefc6000c70, true), Lease: 10 * time.Second},
		{Replicas: capturedReplica(6, 2000, 0x7fefc6001070, true), Lease: 10 * time.Second},
		{Err: &CodeError{Code: -704}},
	}, err)
	if !errors.Is(objects[2].Err, ErrNotFound) {
		t.Error(objects[2].Err)
	}
}

// The calls for one key have the same parts.
func TestAnswersForOneKeyAreOfTheSameParts(t *testing.T) {
	_, answers := capture(t)
	v := versions[0]
	var replicas []Replica
	err := structpack.Decode(structpack.Expected(v.replicaList(), structpack.I32), answers[4].body, func(r *structpack.Reader) {
		replicas = readExpected(r, func() []Replica { return v.readReplicas(r) }).value
	})
	if want := capturedReplica(4, 56, 0x7fefc6000c38, false); err != nil || !reflect.DeepEqual(replicas, want) {
		t.Errorf("%+v, %v, want %+v", replicas, err, want)
	}
	object := structpack.Struct(v.replicaList(), structpack.U64, structpack.Optional(structpack.U64))
	var got Object
	err = structpack.Decode(structpack.Expected(object, structpack.I32), answers[8].body, func(r *structpack.Reader) {
		got = readExpected(r, func() Object { return v.readObject(r) }).value
	})
	want := Object{Replicas: capturedReplica(4, 56, 0x7fefc6000c38, true), Lease: 10 * time.Second}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestAnswersOfAnotherCountAreMalformed(t *testing.T) {
	_, answers := capture(t)
	for _, n := range []int{0, 1, 3} {
		if _, err := decodeExist(answers[3].body, n); !errors.Is(err, structpack.ErrFormat) {
			t.Errorf("two results for %d keys: %v", n, err)
		}
	}
}

// An older version does not read a newer one's answers as its own.
func TestVersionsRefuseEachOthersAnswers(t *testing.T) {
	_, answers := capture(t)
	for _, v := range versions[1:] {
		var typeError *structpack.TypeError
		if _, err := v.decodePutStart(answers[9].body, 2); !errors.As(err, &typeError) {
			t.Errorf("%s: %v", v.name, err)
		}
		if _, err := v.decodeObjects(answers[11].body, 3); !errors.As(err, &typeError) {
			t.Errorf("%s: %v", v.name, err)
		}
	}
}

// FuzzDecodeObjects reads arbitrary values as a master's answers.
func FuzzDecodeObjects(f *testing.F) {
	for _, v := range versions {
		t := structpack.Vector(structpack.Expected(v.replicaList(), structpack.I32))
		message := structpack.Encode(t, func(w *structpack.Writer) {
			w.Len(len(v.replicas))
			for i := range v.replicas {
				w.Bool(true)
				w.Len(1)
				w.U64(1)
				w.U8(uint8(i))
				for range 64 {
					w.U8(0)
				}
			}
		})
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		for _, v := range versions {
			for n := range 4 {
				if objects, err := v.decodeObjects(message, n); err == nil && len(objects) != n {
					t.Errorf("%d objects for %d keys", len(objects), n)
				}
				if started, err := v.decodePutStart(message, n); err == nil && len(started) != n {
					t.Errorf("%d results for %d keys", len(started), n)
				}
			}
		}
	})
}
