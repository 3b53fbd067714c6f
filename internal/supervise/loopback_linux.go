package supervise

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif of linux/seccomp.h.
type notification struct {
	id           uint64
	thread       uint32
	_            uint32
	call         int32
	arch         uint32
	instruction  uint64
	fd           uint64 // bind's arguments
	address      uint64
	addressBytes uint64
	_            [3]uint64
}

// answer is struct seccomp_notif_resp.
type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// keepBindsOnLoopback puts the filter on the calling thread, which must never be
// given back, and answers for it and the processes that it starts until stop is
// called.
func keepBindsOnLoopback() (stop func(), err error) {
	listener, err := listenForBinds()
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		answerBinds(listener)
		_ = listener.Close() // else binds would wait for answers; now they fail
	}()
	return func() {
		_ = listener.Close() // it may have been
		<-done
	}, nil
}

// listenForBinds returns the file from which the filter's notifications come.
func listenForBinds() (*os.File, error) {
	// A process without privileges may filter itself once it can gain none.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("setting no_new_privs: %w", err)
	}
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // seccomp_data.nr, at 0
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_BIND, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]} //nolint:gosec // four
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program))) //nolint:gosec // the call's argument
	if errno != 0 {
		return nil, fmt.Errorf("setting a seccomp filter: %w", errno)
	}
	if err := unix.SetNonblock(int(fd), true); err != nil { // so that Close ends a wait
		return nil, errors.Join(err, unix.Close(int(fd)))
	}
	return os.NewFile(fd, "seccomp listener"), nil
}

// answerBinds serves until the listener is closed or fails.
func answerBinds(listener *os.File) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return
	}
	for {
		var n notification
		var failed error
		// The ioctl blocks whatever the file's mode is, so it follows a poll.
		err := raw.Read(func(fd uintptr) bool {
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a file descriptor
			if count, err := unix.Poll(ready, 0); err != nil || count == 0 || ready[0].Revents&unix.POLLIN == 0 {
				return false
			}
			failed = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) //nolint:gosec // the call's argument
			return true
		})
		if err != nil {
			return
		}
		if errors.Is(failed, unix.ENOENT) || errors.Is(failed, unix.EINTR) { // the caller was killed in between
			continue
		}
		if failed != nil {
			return // and so it would the next time
		}
		a := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if err := onLoopback(raw, &n); err != nil {
			a = answer{id: n.id, errno: -int32(unix.EACCES)}
		}
		_ = raw.Control(func(fd uintptr) { // fails when the caller was killed
			_ = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) //nolint:gosec // the call's argument
		})
	}
}

func ioctl(fd uintptr, request uint, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uintptr(request), uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// Where the address lies in struct sockaddr_in and sockaddr_in6.
const (
	inet4Address, inet4End = 4, 8
	inet6Address, inet6End = 8, 24
)

// onLoopback makes the wildcard address of a bind call 127.0.0.1. An IPv6 socket
// gets ::ffff:127.0.0.1, which it accepts if it would have accepted IPv4 too.
func onLoopback(raw syscall.RawConn, n *notification) error {
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", n.thread), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close() //nolint:errcheck // nothing is buffered
	// While the notification is valid the thread's number has not passed to another.
	var invalid error
	if err := raw.Control(func(fd uintptr) {
		invalid = ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&n.id)) //nolint:gosec // the call's argument
	}); err != nil || invalid != nil {
		return errors.Join(err, invalid)
	}
	address := make([]byte, min(n.addressBytes, inet6End))
	if _, err := memory.ReadAt(address, int64(n.address)); err != nil { //nolint:gosec // an address of user space
		return err
	}
	if len(address) < inet4End {
		return nil
	}
	loopback, at := []byte{127, 0, 0, 1}, inet4Address
	switch family := binary.NativeEndian.Uint16(address); {
	case family == unix.AF_INET && allZero(address[inet4Address:inet4End]):
	case family == unix.AF_INET6 && len(address) == inet6End && allZero(address[inet6Address:inet6End]):
		loopback, at = []byte{10: 0xff, 11: 0xff, 12: 127, 13: 0, 14: 0, 15: 1}, inet6Address
	default:
		return nil
	}
	_, err = memory.WriteAt(loopback, int64(n.address)+int64(at)) //nolint:gosec // an address of user space
	return err
}

func allZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}
