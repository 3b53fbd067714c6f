//go:build !linux

package transfer

// setLowWater does nothing here: readers are woken for whatever comes.
func (c *conn) setLowWater(int) {}
