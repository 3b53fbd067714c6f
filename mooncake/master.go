package mooncake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"ollamoon/mooncake/rpc"
	"ollamoon/mooncake/structpack"
)

// masterService is the class whose functions the master serves.
const masterService = "mooncake::WrappedMasterService::"

// maxKeys is how many keys one call names at most.
const maxKeys = 4096

// A master is the connection to a mooncake_master and the version that it was
// found to speak.
type master struct {
	conn   *rpc.Conn
	tenant string
	spoken atomic.Pointer[version] // nil: not known
}

// A question is a call whose meaning is the same in all versions.
type question[T any] struct {
	method string
	encode func(*version) []byte
	decode func(*version, []byte) (T, error)
	// repeatable: it may be asked again when a connection broke before its answer.
	repeatable bool
}

// ask asks the master, in the version that it speaks. A master that turns out to
// speak another one than before (it was replaced) is asked again in that, once, and
// a repeatable question when a connection broke, once.
func ask[T any](ctx context.Context, m *master, q question[T]) (T, error) {
	var none T
	var respoken, repeated bool
	for {
		v, err := m.version(ctx)
		if err != nil {
			return none, err
		}
		value, err := q.once(ctx, m, v)
		switch {
		case err == nil:
			return value, nil
		case !respoken && isMismatch(err):
			respoken = true
			m.spoken.CompareAndSwap(v, nil)
		case !repeated && q.repeatable && errors.Is(err, rpc.ErrBroken) && ctx.Err() == nil:
			repeated = true
		default:
			return none, outcome(ctx, err)
		}
	}
}

func (q question[T]) once(ctx context.Context, m *master, v *version) (T, error) {
	var none T
	body, err := m.conn.Call(ctx, masterService+q.method, q.encode(v))
	if err != nil {
		return none, err
	}
	value, err := q.decode(v, body)
	if err != nil {
		return none, fmt.Errorf("reading the answer to %s: %w", q.method, err)
	}
	return value, nil
}

// isMismatch reports whether an error says that the two sides mean different types
// or functions.
func isMismatch(err error) bool {
	var typeError *structpack.TypeError
	return errors.Is(err, rpc.ErrArguments) || errors.Is(err, rpc.ErrNoFunction) || errors.As(err, &typeError)
}

// outcome gives an error of a call the sentinel that it means to the caller.
func outcome(ctx context.Context, err error) error {
	var code *CodeError
	switch {
	case errors.As(err, &code):
		return err
	case ctx.Err() != nil:
		return ended(ctx, err)
	case errors.Is(err, rpc.ErrClosed):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	case isMismatch(err):
		return fmt.Errorf("%w: %w", ErrWireVersion, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// ended gives an error of a call whose context is done the cause of that.
func ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// version returns the version that the master speaks, and finds it out when it is
// not known.
func (m *master) version(ctx context.Context) (*version, error) {
	if v := m.spoken.Load(); v != nil {
		return v, nil
	}
	names, answers := make([]string, 0, len(versions)), make([]string, 0, len(versions))
	for _, v := range versions {
		err := m.probe(ctx, v)
		if err == nil {
			if err := m.checkTenant(v); err != nil {
				return nil, err
			}
			m.spoken.Store(v)
			return v, nil
		}
		if !isMismatch(err) {
			return nil, outcome(ctx, err)
		}
		names = append(names, v.name)
		answers = append(answers, fmt.Sprintf("%s: %v", v.name, err))
	}
	return nil, fmt.Errorf("%w: the client speaks %s; the master at %s answers to %s",
		ErrWireVersion, strings.Join(names, ", "), m.conn.Addr(), strings.Join(answers, "; to "))
}

// probe asks about no keys, which changes nothing and is answered with the types
// of the version. Between them, the calls have all types that differ.
func (m *master) probe(ctx context.Context, v *version) error {
	if _, err := putStart(writerID{}, nil, nil, &ReplicateConfig{}, m.tenant).once(ctx, m, v); err != nil {
		return err
	}
	if _, err := putEnd(writerID{}, nil, m.tenant).once(ctx, m, v); err != nil {
		return err
	}
	_, err := objects(nil, m.tenant).once(ctx, m, v)
	return err
}

// checkTenant refuses a tenant on a version without them, where it would silently
// share everything with all others.
func (m *master) checkTenant(v *version) error {
	if v.tenants || m.tenant == defaultTenant {
		return nil
	}
	return fmt.Errorf("%w: tenant %q: the master speaks %s, which has no tenants", ErrUnsupported, m.tenant, v.name)
}

func exist(keys []string, tenant string) question[[]expected[bool]] {
	return question[[]expected[bool]]{
		method:     "BatchExistKey",
		encode:     func(v *version) []byte { return v.keysRequest(keys, tenant) },
		decode:     func(_ *version, body []byte) ([]expected[bool], error) { return decodeExist(body, len(keys)) },
		repeatable: true,
	}
}

func objects(keys []string, tenant string) question[[]Object] {
	return question[[]Object]{
		method:     "BatchGetReplicaList",
		encode:     func(v *version) []byte { return v.keysRequest(keys, tenant) },
		decode:     func(v *version, body []byte) ([]Object, error) { return v.decodeObjects(body, len(keys)) },
		repeatable: true,
	}
}

func remove(keys []string, force bool, tenant string) question[[]error] {
	return question[[]error]{
		method: "BatchRemove",
		encode: func(v *version) []byte { return v.removeRequest(keys, force, tenant) },
		decode: func(_ *version, body []byte) ([]error, error) { return decodeOutcomes(body, len(keys)) },
	}
}

func putStart(id writerID, keys []string, sizes []uint64, config *ReplicateConfig, tenant string) question[[]expected[[]Replica]] {
	return question[[]expected[[]Replica]]{
		method: "BatchPutStart",
		encode: func(v *version) []byte { return v.putStartRequest(id, keys, sizes, config, tenant) },
		decode: func(v *version, body []byte) ([]expected[[]Replica], error) { return v.decodePutStart(body, len(keys)) },
	}
}

// putEnd may be repeated: the master takes the end of what has ended.
func putEnd(id writerID, keys []string, tenant string) question[[]error] {
	return question[[]error]{
		method:     "BatchPutEnd",
		encode:     func(v *version) []byte { return v.putEndRequest(id, keys, tenant) },
		decode:     func(_ *version, body []byte) ([]error, error) { return decodeOutcomes(body, len(keys)) },
		repeatable: true,
	}
}

func putRevoke(id writerID, keys []string, tenant string) question[[]error] {
	return question[[]error]{
		method:     "BatchPutRevoke",
		encode:     func(v *version) []byte { return v.putRevokeRequest(id, keys, tenant) },
		decode:     func(_ *version, body []byte) ([]error, error) { return decodeOutcomes(body, len(keys)) },
		repeatable: true,
	}
}

func serviceReady() question[string] {
	return question[string]{
		method:     "ServiceReady",
		encode:     func(*version) []byte { return nil },
		decode:     func(_ *version, body []byte) (string, error) { return decodeServiceReady(body) },
		repeatable: true,
	}
}

func ping(id writerID) question[pong] {
	return question[pong]{
		method:     "Ping",
		encode:     func(*version) []byte { return pingRequest(id) },
		decode:     func(_ *version, body []byte) (pong, error) { return decodePing(body) },
		repeatable: true,
	}
}
