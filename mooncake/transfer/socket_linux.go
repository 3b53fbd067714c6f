package transfer

import "golang.org/x/sys/unix"

// setLowWater makes reads wait until n bytes have come, the peer has closed or
// the kernel is short of memory.
func (c *conn) setLowWater(n int) {
	if c.raw == nil {
		return
	}
	// It saves wakeups and nothing else, so that an error does not matter.
	_ = c.raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, n)
	})
}
