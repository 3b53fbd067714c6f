package shm

import "golang.org/x/sys/unix"

// mapAgain maps an arena as the process does that it is shared with.
func mapAgain(a *arena) ([]byte, error) {
	return unix.Mmap(a.fd, 0, len(a.mem), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmapAgain(mem []byte) error { return unix.Munmap(mem) }
