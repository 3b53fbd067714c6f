package supervise

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Listeners returns the addresses at which the child itself listens for TCP
// connections, from what the kernel shows under /proc. So its own port is told from
// one that another process has taken.
func (p *Process) Listeners() ([]netip.AddrPort, error) {
	own, err := p.sockets()
	if err != nil {
		return nil, fmt.Errorf("finding a process's sockets: %w", err)
	}
	var found []netip.AddrPort
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", p.PID(), table))
		if errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("finding a process's sockets: %w", err)
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if address, inode, ok := listening(lines.Text()); ok && own[inode] {
				found = append(found, address)
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return nil, fmt.Errorf("finding a process's sockets: %w", err)
		}
	}
	return found, nil
}

// sockets returns the inodes of the child's open sockets.
func (p *Process) sockets() (map[string]bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", p.PID())
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	inodes := map[string]bool{}
	for _, name := range names {
		target, err := os.Readlink(filepath.Join(dir, name.Name()))
		if err != nil {
			continue // closed in between
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes, nil
}

// listening reads a line of /proc/net/tcp or tcp6 (proc_net_tcp in the kernel's
// documentation): number, local address, remote address, state, ..., inode.
func listening(line string) (address netip.AddrPort, inode string, ok bool) {
	const local, state, inodeField, listens = 1, 3, 9, "0A"
	fields := strings.Fields(line)
	if len(fields) <= inodeField || fields[state] != listens {
		return netip.AddrPort{}, "", false
	}
	host, port, _ := strings.Cut(fields[local], ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, "", false
	}
	for i := 0; i < len(b); i += 4 { // the kernel prints words in this machine's order
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	ip, ok := netip.AddrFromSlice(b)
	number, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), fields[inodeField], ok && err == nil
}
