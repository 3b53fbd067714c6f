package shm

import (
	"context"
	"testing"
	"time"
)

// within returns a context that is done before the test binary gives up.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func fillWith(b []byte, value byte) {
	for i := range b {
		b[i] = value
	}
}
