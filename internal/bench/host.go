package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"ollamoon/internal/results"
)

// ThisHost describes the machine.
func ThisHost(ctx context.Context) (results.Host, error) {
	info, errHost := host.InfoWithContext(ctx)
	memory, errMemory := mem.VirtualMemoryWithContext(ctx)
	processors, errCPU := cpu.InfoWithContext(ctx)
	if err := errors.Join(errHost, errMemory, errCPU); err != nil {
		return results.Host{}, fmt.Errorf("describing the host: %w", err)
	}
	h := results.Host{
		Name:        info.Hostname,
		OS:          strings.TrimSpace(info.Platform + " " + info.PlatformVersion),
		Kernel:      info.KernelVersion,
		Cores:       runtime.NumCPU(),
		MemoryBytes: memory.Total,
	}
	if len(processors) > 0 {
		h.CPU = processors[0].ModelName
	}
	return h, nil
}
