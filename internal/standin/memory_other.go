//go:build !linux

package standin

import "math"

// memoryBytes is known on Linux only.
func memoryBytes() int64 { return math.MaxInt64 }
