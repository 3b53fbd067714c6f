package bench

import (
	"context"
	"errors"
	"fmt"
	"os"

	psnet "github.com/shirou/gopsutil/v4/net"
	"github.com/shirou/gopsutil/v4/process"
)

// resident returns the memory of this process that is resident, now and at its
// peak, in bytes. The peak is zero where the system does not tell.
func resident(ctx context.Context) (now, peak int64, err error) {
	self, err := process.NewProcessWithContext(ctx, int32(os.Getpid())) //nolint:gosec // a process id
	if err != nil {
		return 0, 0, fmt.Errorf("reading this process's memory: %w", err)
	}
	m, err := self.MemoryInfoWithContext(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("reading this process's memory: %w", err)
	}
	return int64(m.RSS), int64(m.HWM), nil //nolint:gosec // less than the address space
}

var errNoLoopback = errors.New("no loopback interface")

// loopbackBytes is what the loopback interface has carried. Each byte is counted
// once, on arrival.
func loopbackBytes(ctx context.Context) (int64, error) {
	interfaces, err := psnet.IOCountersWithContext(ctx, true)
	if err != nil {
		return 0, fmt.Errorf("reading the interfaces' counters: %w", err)
	}
	for _, i := range interfaces {
		if i.Name == "lo" || i.Name == "lo0" {
			return int64(i.BytesRecv), nil //nolint:gosec // 2^63 bytes take a while
		}
	}
	return 0, errNoLoopback
}
