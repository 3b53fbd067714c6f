package shm

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
)

// socketLine is a line of /proc/net/unix about a socket that listens (flag
// 0x10000) under the name of a mooncake_client.
var socketLine = regexp.MustCompile(`(?m)^\S+ \S+ \S+ 00010000 .* @@mooncake_client_(\d{1,5})\.sock$`)

// Ports returns the RPC ports of the mooncake_client processes of this host, in
// ascending order.
func Ports() ([]int, error) {
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("looking for mooncake_client processes: %w", err)
	}
	return ports(table), nil
}

func ports(table []byte) []int {
	var found []int
	for _, match := range socketLine.FindAllSubmatch(table, -1) {
		port, err := strconv.Atoi(string(match[1]))
		if err == nil && port > 0 && port < 1<<16 {
			found = append(found, port)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
