//go:build !linux

package file

import "golang.org/x/sys/unix"

// bootID tells this boot of the machine from others. It is empty where the
// system does not say.
func bootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return id
}
