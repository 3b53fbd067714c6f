package supervise

import (
	"context"
	"fmt"
	"net"
)

// FreePorts returns n different TCP ports that nothing listens on at loopback at
// this moment. Another process can take one before the caller does: who starts a
// child on them starts it again on others when it ends at once.
func FreePorts(ctx context.Context, n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		defer l.Close() //nolint:errcheck // held until all are found, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
