package bench

import (
	"context"
	"errors"
	"fmt"

	"ollamoon/mooncake"
	"ollamoon/store"
	storemooncake "ollamoon/store/mooncake"
)

// A connection is a store that was opened.
type connection struct {
	store.Store
	versions map[string]string
	// plane returns an error when an object took another way than was asked for. It
	// may be nil.
	plane func() error
}

// errPlane: figures of one data plane would stand under the other's name.
var errPlane = errors.New("another data plane served")

func dialMooncake(ctx context.Context, o *opening) (*connection, error) {
	s, err := storemooncake.Open(ctx, o.client())
	if err != nil {
		return nil, err
	}
	plane := func() error {
		stats := s.Client().Stats()
		other, name := stats.SharedMemory, "shared memory"
		if o.SharedMemory != "" {
			other, name = stats.TCP, "TCP"
		}
		if n := other.ObjectsRead + other.ObjectsWritten; n > 0 || stats.Copies > 0 {
			return fmt.Errorf("%w: %d objects over %s, %d copied on their way", errPlane, n, name, stats.Copies)
		}
		return nil
	}
	return &connection{s, map[string]string{"mooncake_wire": s.Client().WireVersion()}, plane}, nil
}

func (o *opening) client() mooncake.Config {
	const slack = 1 << 16 // of a buffer, for its alignment
	config := mooncake.Config{
		Master: o.Master, Metadata: o.Metadata, SharedMemory: "off",
		ArenaBytes: int64(3*o.Pages) * int64(o.ObjectBytes+slack),
	}
	if o.SharedMemory != "" {
		config.SharedMemory = o.SharedMemory
	}
	return config
}
