package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	psnet "github.com/shirou/gopsutil/v4/net"
)

// resident returns the memory of this process that is resident.
func resident() (now, peak int64, err error) { return residentOf("self") }

// residentOf returns the memory of a process that is resident, now and at its
// peak, in bytes; zeroes where the system does not tell.
func residentOf(process string) (now, peak int64, err error) {
	status, err := os.ReadFile("/proc/" + process + "/status") //nolint:gosec // a process's number, or self
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading the memory of process %s: %w", process, err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		// Lines of other fields are left alone: they do not begin so.
		_, _ = fmt.Sscanf(lines.Text(), "VmRSS: %d kB", &now)
		_, _ = fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &peak)
	}
	return now << 10, peak << 10, nil
}

// errNoLoopback: the bytes that cross loopback cannot be counted.
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
