package room

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// inMemory reports whether what is written to a file system takes memory.
func inMemory(s *syscall.Statfs_t) bool {
	return int64(s.Type) == unix.TMPFS_MAGIC || int64(s.Type) == unix.RAMFS_MAGIC //nolint:unconvert // its type differs between processors
}

// memoryLeft is how much memory can be taken before the machine, or a control
// group of this process, has none; root is where /proc and /sys are. Memory for
// files that were not used lately counts as left: it can be had back.
func memoryLeft(root string) int64 {
	left := int64(math.MaxInt64)
	if kib, ok := field(filepath.Join(root, "proc/meminfo"), "MemAvailable:"); ok {
		left = kib << 10
	}
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup")) //nolint:gosec // the kernel's
	if err != nil {
		return left
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch controllers := strings.Split(parts[1], ","); {
		case parts[0] == "0":
			left = min(left, version2.left(filepath.Join(root, "sys/fs/cgroup"), parts[2]))
		case slices.Contains(controllers, "memory"):
			left = min(left, version1.left(filepath.Join(root, "sys/fs/cgroup/memory"), parts[2]))
		}
	}
	return left
}

// A version of control groups names the files in which a group's figures are.
type version struct{ limit, used, idle string }

var (
	version1 = version{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
	version2 = version{"memory.max", "memory.current", "inactive_file"}
)

// left is what a group and those above it leave. In a container a group's path
// may be the host's, which is not there: then the groups above it count.
func (v version) left(mounted, group string) int64 {
	left := int64(math.MaxInt64)
	for path := filepath.Clean("/" + group); ; path = filepath.Dir(path) {
		folder := filepath.Join(mounted, path)
		limit, limited := number(filepath.Join(folder, v.limit))
		used, known := number(filepath.Join(folder, v.used))
		if limited && known {
			idle, _ := field(filepath.Join(folder, "memory.stat"), v.idle)
			left = min(left, max(0, limit-used+idle))
		}
		if path == "/" {
			return left
		}
	}
}

// number is what a file consists of; "max" is none.
func number(path string) (int64, bool) {
	data, err := os.ReadFile(path) //nolint:gosec // the kernel's
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(data)), 10, 64)
	return n, err == nil
}

// field is the number behind a name in a file of such lines.
func field(path, name string) (int64, bool) {
	file, err := os.Open(path) //nolint:gosec // the kernel's
	if err != nil {
		return 0, false
	}
	defer file.Close() //nolint:errcheck // read only
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) >= 2 && words[0] == name {
			n, err := strconv.ParseInt(words[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
