package room

import (
	"os"
	"path/filepath"
	"testing"
)

func TestBytes(t *testing.T) {
	if got := Bytes(filepath.Join(t.TempDir(), "missing")); got != 0 {
		t.Errorf("a folder that is not there has room for %d bytes", got)
	}
	disk := Bytes(t.TempDir())
	memory := Bytes("/dev/shm")
	if disk <= 0 || memory <= 0 {
		t.Errorf("room for %d bytes on disk, %d in memory", disk, memory)
	}
	if left := memoryLeft("/"); memory > left+left/2 {
		t.Errorf("room for %d bytes in memory of which %d are left", memory, left)
	}
}

// The least of what the machine and the groups leave counts.
func TestMemoryLeft(t *testing.T) {
	const meminfo = "MemTotal:       1000 kB\nMemAvailable:    500 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no group": {map[string]string{"proc/meminfo": meminfo}, 500 << 10},
		"a group of version 2": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "100000\n", "sys/fs/cgroup/a/b/memory.current": "70000\n",
			"sys/fs/cgroup/a/b/memory.stat": "anon 5\ninactive_file 6000\n",
		}, 36000},
		"the one above has less": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "70000\n",
			"sys/fs/cgroup/a/memory.max": "90000\n", "sys/fs/cgroup/a/memory.current": "80000\n",
		}, 10000},
		"more used than the limit": {map[string]string{
			"proc/self/cgroup":         "0::/\n",
			"sys/fs/cgroup/memory.max": "100\n", "sys/fs/cgroup/memory.current": "200\n",
		}, 0},
		"version 1, without the host's path": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "4:cpu,cpuacct:/x\n3:memory:/docker/y\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "300000\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "250000\n",
			"sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 2000\n",
		}, 52000},
	} {
		root := t.TempDir()
		for path, content := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := memoryLeft(root); got != c.want {
			t.Errorf("%s: %d bytes are left, want %d", name, got, c.want)
		}
	}
}
