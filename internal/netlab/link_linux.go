package netlab

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// Rates of links, in bits per second.
const (
	Mbit = 1_000_000
	Gbit = 1000 * Mbit
)

// burst is how much a shaped link lets pass at once: what goes over 1 Gbit/s in a
// few ticks of the kernel's clock, and a packet as large as the kernel makes them.
const burst = 128 << 10

// queue is what waits for a shaped link; more is dropped, by which TCP learns the
// rate.
const queue = 512 << 10

// Shape gives a machine's link a rate, in both directions.
func (m *Machine) Shape(bitsPerSecond uint64) error {
	rate := bitsPerSecond / 8
	size := uint32(burst)
	if rate < Gbit/8/10 {
		size = burst / 8 // else much of a short transfer would pass unshaped
	}
	for _, end := range m.ends() {
		err := end.handle.QdiscReplace(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: end.link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       rate, Limit: queue, Buffer: netlink.Xmittime(rate, size),
		})
		if err != nil {
			return fmt.Errorf("netlab: shaping the link of %s (the kernel needs CONFIG_NET_SCH_TBF, module sch_tbf): %w", m.Name, err)
		}
	}
	return nil
}

// An end is one of a cable's, with what changes it.
type end struct {
	handle *netlink.Handle
	link   netlink.Link
}

func (m *Machine) ends() []end {
	return []end{{m.handle, m.inner}, {&netlink.Handle{}, m.outer}}
}

// Cut drops, without a word, all that the other machines send to this one. So what
// it says to them is answered by nobody: packets vanish in one direction, and the
// machine cannot tell on which way they were lost.
func (m *Machine) Cut(others ...*Machine) error {
	var errs []error
	for _, other := range others {
		errs = append(errs, other.handle.RouteAdd(m.hole()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("netlab: cutting %s off: %w", m.Name, err)
	}
	return nil
}

// Mend takes a Cut back.
func (m *Machine) Mend(others ...*Machine) error {
	var errs []error
	for _, other := range others {
		errs = append(errs, other.handle.RouteDel(m.hole()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("netlab: connecting %s again: %w", m.Name, err)
	}
	return nil
}

// hole is a route by which what is sent to the machine vanishes.
func (m *Machine) hole() *netlink.Route {
	return &netlink.Route{
		Dst:  &net.IPNet{IP: m.Address.AsSlice(), Mask: net.CIDRMask(32, 32)},
		Type: blackhole,
	}
}

// blackhole is RTN_BLACKHOLE of linux/rtnetlink.h.
const blackhole = 6
