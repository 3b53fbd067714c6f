package standin

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// memoryBytes is what the memory limit of this process's control group leaves,
// or as much as can be when it has none.
func memoryBytes() int64 {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return math.MaxInt64
	}
	_, group, ok := bytes.Cut(bytes.TrimSpace(groups), []byte("0::"))
	if !ok {
		return math.MaxInt64
	}
	folder := filepath.Join("/sys/fs/cgroup", string(group))
	limit, limited := number(filepath.Join(folder, "memory.max"))
	used, known := number(filepath.Join(folder, "memory.current"))
	if !limited || !known {
		return math.MaxInt64
	}
	return max(0, limit-used)
}

func number(path string) (int64, bool) {
	data, err := os.ReadFile(path) //nolint:gosec // the kernel's
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	return n, err == nil
}
