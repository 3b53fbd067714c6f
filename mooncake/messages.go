package mooncake

import (
	"fmt"
	"time"

	"ollamoon/mooncake/structpack"
)

// A writerID is the client that a put names in its calls. The master gives a
// begun object to no other.
type writerID = [2]uint64

// allReplicas is ReplicaType::ALL.
const allReplicas = 4

var (
	keyList  = structpack.Vector(structpack.String)
	outcomes = structpack.Vector(structpack.Expected(structpack.Void, structpack.I32))

	existAnswer = structpack.Vector(structpack.Expected(structpack.Bool, structpack.I32))
	pingAnswer  = structpack.Expected(structpack.Struct(structpack.I64, structpack.I32), structpack.I32)
	readyAnswer = structpack.Expected(structpack.String, structpack.I32)
)

// arguments is the type of a call's arguments: with the tenant behind them, where
// the version has tenants.
func (v *version) arguments(fields ...structpack.Type) structpack.Type {
	if v.tenants {
		fields = append(fields, structpack.String)
	}
	if len(fields) == 1 {
		return fields[0]
	}
	return structpack.Struct(fields...)
}

func (v *version) writeTenant(w *structpack.Writer, tenant string) {
	if v.tenants {
		w.String(tenant)
	}
}

// keysRequest is the arguments of BatchExistKey and BatchGetReplicaList.
func (v *version) keysRequest(keys []string, tenant string) []byte {
	return structpack.Encode(v.arguments(keyList), func(w *structpack.Writer) {
		structpack.WriteSlice(w, keys, w.String)
		v.writeTenant(w, tenant)
	})
}

// removeRequest is the arguments of BatchRemove.
func (v *version) removeRequest(keys []string, force bool, tenant string) []byte {
	return structpack.Encode(v.arguments(keyList, structpack.Bool), func(w *structpack.Writer) {
		structpack.WriteSlice(w, keys, w.String)
		w.Bool(force)
		v.writeTenant(w, tenant)
	})
}

// putStartRequest is the arguments of BatchPutStart.
func (v *version) putStartRequest(id writerID, keys []string, sizes []uint64, config *ReplicateConfig, tenant string) []byte {
	t := v.arguments(structpack.UUID, keyList, structpack.Vector(structpack.U64), v.configType())
	return structpack.Encode(t, func(w *structpack.Writer) {
		w.UUID(id)
		structpack.WriteSlice(w, keys, w.String)
		structpack.WriteSlice(w, sizes, w.U64)
		v.writeConfig(w, config)
		v.writeTenant(w, tenant)
	})
}

// putEndRequest is the arguments of BatchPutEnd.
func (v *version) putEndRequest(id writerID, keys []string, tenant string) []byte {
	key, writeKey := structpack.String, (*structpack.Writer).String
	if v.checksums {
		key = structpack.Struct(structpack.String, structpack.Optional(structpack.U64))
		writeKey = func(w *structpack.Writer, k string) {
			w.String(k)
			w.Bool(false)
		}
	}
	return structpack.Encode(v.arguments(structpack.UUID, structpack.Vector(key), structpack.I32), func(w *structpack.Writer) {
		w.UUID(id)
		structpack.WriteSlice(w, keys, func(k string) { writeKey(w, k) })
		w.I32(allReplicas)
		v.writeTenant(w, tenant)
	})
}

// putRevokeRequest is the arguments of BatchPutRevoke.
func (v *version) putRevokeRequest(id writerID, keys []string, tenant string) []byte {
	return structpack.Encode(v.arguments(structpack.UUID, keyList, structpack.I32), func(w *structpack.Writer) {
		w.UUID(id)
		structpack.WriteSlice(w, keys, w.String)
		w.I32(allReplicas)
		v.writeTenant(w, tenant)
	})
}

func pingRequest(id writerID) []byte {
	return structpack.Encode(structpack.UUID, func(w *structpack.Writer) { w.UUID(id) })
}

// An expected is a value or why there is none.
type expected[T any] struct {
	value T
	err   error
}

func readExpected[T any](r *structpack.Reader, read func() T) expected[T] {
	if r.Bool() {
		return expected[T]{value: read()}
	}
	code := r.I32()
	if code == 0 {
		return expected[T]{err: fmt.Errorf("%w: a failure with code 0", structpack.ErrFormat)}
	}
	return expected[T]{err: codeError(code)}
}

// decodeBatch reads the answer of a batch of n keys.
func decodeBatch[T any](t structpack.Type, body []byte, n int, read func(*structpack.Reader) T) ([]expected[T], error) {
	var results []expected[T]
	err := structpack.Decode(t, body, func(r *structpack.Reader) {
		results = structpack.ReadSlice(r, func() expected[T] {
			return readExpected(r, func() T { return read(r) })
		})
	})
	if err != nil {
		return nil, err
	}
	if len(results) != n {
		return nil, fmt.Errorf("%w: %d results for %d keys", structpack.ErrFormat, len(results), n)
	}
	return results, nil
}

func decodeExist(body []byte, n int) ([]expected[bool], error) {
	return decodeBatch(existAnswer, body, n, (*structpack.Reader).Bool)
}

// decodeOutcomes reads the answer of BatchPutEnd, BatchPutRevoke and BatchRemove:
// an error or nil for each key.
func decodeOutcomes(body []byte, n int) ([]error, error) {
	results, err := decodeBatch(outcomes, body, n, func(*structpack.Reader) struct{} { return struct{}{} })
	if err != nil {
		return nil, err
	}
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = r.err
	}
	return errs, nil
}

// replicaList is the type of vector<ReplicaDescriptor>.
func (v *version) replicaList() structpack.Type {
	alternatives := make([]structpack.Type, 0, len(v.replicas))
	for _, k := range v.replicas {
		alternatives = append(alternatives, k.typ)
	}
	return structpack.Vector(structpack.Struct(structpack.U64, structpack.Variant(alternatives...), structpack.I32))
}

func (v *version) readReplicas(r *structpack.Reader) []Replica {
	return structpack.ReadSlice(r, func() Replica {
		replica := Replica{ID: r.U64()}
		k := v.replicas[r.Alternative(len(v.replicas))]
		replica.Kind = k.kind
		k.read(r, &replica)
		replica.Complete = r.I32() == complete
		return replica
	})
}

func (v *version) decodePutStart(body []byte, n int) ([]expected[[]Replica], error) {
	t := structpack.Vector(structpack.Expected(v.replicaList(), structpack.I32))
	return decodeBatch(t, body, n, v.readReplicas)
}

func (v *version) decodeObjects(body []byte, n int) ([]Object, error) {
	fields := []structpack.Type{v.replicaList(), structpack.U64}
	if v.checksums {
		fields = append(fields, structpack.Optional(structpack.U64))
	}
	t := structpack.Vector(structpack.Expected(structpack.Struct(fields...), structpack.I32))
	results, err := decodeBatch(t, body, n, v.readObject)
	if err != nil {
		return nil, err
	}
	objects := make([]Object, len(results))
	for i, r := range results {
		objects[i] = r.value
		objects[i].Err = r.err
	}
	return objects, nil
}

func (v *version) readObject(r *structpack.Reader) Object {
	o := Object{Replicas: v.readReplicas(r), Lease: leaseOf(r.U64())}
	if v.checksums && r.Bool() {
		sum := r.U64()
		o.Checksum = &sum
	}
	return o
}

// longestLease bounds what a master says of a lease: more makes no difference.
const longestLease = 24 * time.Hour

func leaseOf(ms uint64) time.Duration {
	return time.Duration(min(ms, uint64(longestLease.Milliseconds()))) * time.Millisecond //nolint:gosec // at most a day
}

// decodeServiceReady returns the release that the master says it is, which says
// nothing about its protocol.
func decodeServiceReady(body []byte) (string, error) {
	var result expected[string]
	err := structpack.Decode(readyAnswer, body, func(r *structpack.Reader) { result = readExpected(r, r.String) })
	if err != nil {
		return "", err
	}
	return result.value, result.err
}

// A pong is the answer of Ping.
type pong struct {
	view   int64
	status int32
}

func decodePing(body []byte) (pong, error) {
	var result expected[pong]
	err := structpack.Decode(pingAnswer, body, func(r *structpack.Reader) {
		result = readExpected(r, func() pong { return pong{view: r.I64(), status: r.I32()} })
	})
	if err != nil {
		return pong{}, err
	}
	return result.value, result.err
}
