package file

import "os"

// bootID tells this boot of the machine from others. It is empty where the
// system does not say.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(id)
}
