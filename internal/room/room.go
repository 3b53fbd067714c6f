package room

import "syscall"

// Bytes returns how much can be written to the file system of a folder; 0 when it
// cannot be told.
func Bytes(folder string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0
	}
	free := int64(s.Bavail) * int64(s.Bsize) //nolint:gosec,unconvert // types differ between systems
	if inMemory(&s) {
		free = min(free, memoryLeft("/"))
	}
	return free
}
