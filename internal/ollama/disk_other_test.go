//go:build !linux

package ollama

import "context"

// Small disks are made on Linux only.
func useSmallDisk(context.Context) int { return 1 }
