//go:build unix

package offheap

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapped returns fresh memory of a size.
func mapped(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	return b, nil
}

// unmap gives memory of mapped back.
func unmap(b []byte) {
	if err := unix.Munmap(b); err != nil {
		panic(os.NewSyscallError("munmap", err)) // it was mapped so
	}
}
