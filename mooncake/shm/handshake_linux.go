package shm

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// arenaBase is the address by which the arena's begin is named to the process.
// Any will do; this one says nothing about this process.
const arenaBase = 1 << 40

const (
	registerShm  = 0
	requestBytes = 40
)

// register hands the arena to the process behind a unix socket.
func register(ctx context.Context, port string, id clientID, a *arena, anyUser bool) error {
	var dialer net.Dialer
	// The first @ makes the name abstract, the second is part of it.
	c, err := dialer.DialContext(ctx, "unix", "@@mooncake_client_"+port+".sock")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	socket := c.(*net.UnixConn) // what dialling "unix" makes
	defer context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })()
	defer func() { _ = socket.Close() }()
	if !anyUser {
		if err := checkUser(socket); err != nil {
			return err
		}
	}
	if err := sendArena(socket, id, a); err != nil {
		return fmt.Errorf("%w: sending the arena: %w", ErrUnavailable, err)
	}
	var answer [4]byte
	if _, err := io.ReadFull(socket, answer[:]); err != nil {
		return fmt.Errorf("%w: waiting for the arena to be taken: %w", ErrUnavailable, err)
	}
	if status := int32(binary.LittleEndian.Uint32(answer[:])); status != 0 { //nolint:gosec // two's complement
		return fmt.Errorf("%w: the process does not take the arena: status %d", ErrUnavailable, status)
	}
	return nil
}

// checkUser refuses a process of another user.
func checkUser(socket *net.UnixConn) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var peer *unix.Ucred
	var peerErr error
	err = raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err != nil || peerErr != nil {
		return fmt.Errorf("%w: asking who listens: %w %w", ErrUnavailable, err, peerErr)
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: the process runs as user %d", ErrUnsupported, peer.Uid)
	}
	return nil
}

func sendArena(socket *net.UnixConn, id clientID, a *arena) error {
	if _, err := socket.Write(binary.LittleEndian.AppendUint32(nil, registerShm)); err != nil {
		return err
	}
	request := make([]byte, 0, requestBytes)
	request = binary.LittleEndian.AppendUint64(request, id[0])
	request = binary.LittleEndian.AppendUint64(request, id[1])
	request = binary.LittleEndian.AppendUint64(request, arenaBase)
	request = binary.LittleEndian.AppendUint64(request, uint64(len(a.mem)))
	request = binary.LittleEndian.AppendUint32(request, noDevice)
	request = append(request, 0, 0, 0, 0) // not a local buffer; padding
	_, _, err := socket.WriteMsgUnix(request, unix.UnixRights(a.fd), nil)
	return err
}
