package netlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Subnet is the lab's network. Its first address is the lab's own, at which the
// test is.
var Subnet = netip.MustParsePrefix("10.77.0.0/24")

// A Lab is a bridge and machines. It is for one goroutine.
type Lab struct {
	bridge   netlink.Link
	next     netip.Addr
	machines []*Machine
}

// New makes a lab without machines. The test's process must be one that Main has
// made, as a lab changes the network of its namespace.
func New() (*Lab, error) {
	own := Subnet.Addr().Next()
	l := &Lab{
		bridge: &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "lab"}},
		next:   own.Next(),
	}
	if err := netlink.LinkAdd(l.bridge); err != nil {
		return nil, fmt.Errorf("netlab: making a bridge: %w", err)
	}
	here := &netlink.Handle{} // of this namespace
	if err := errors.Join(loopbackUp(here), up(here, l.bridge, own)); err != nil {
		return nil, errors.Join(fmt.Errorf("netlab: starting a bridge: %w", err), l.Close())
	}
	return l, nil
}

// Close removes the machines' network. What runs on them must have ended.
func (l *Lab) Close() error {
	var errs []error
	for _, m := range l.machines {
		errs = append(errs, m.close())
	}
	if err := errors.Join(append(errs, netlink.LinkDel(l.bridge))...); err != nil {
		return fmt.Errorf("netlab: closing a lab: %w", err)
	}
	return nil
}

// A Machine is a network namespace with an address.
type Machine struct {
	Name      string
	Address   netip.Addr
	namespace netns.NsHandle
	handle    *netlink.Handle
	// The two ends of the machine's cable: its own, and the one at the bridge.
	inner, outer netlink.Link
}

// Machine adds a machine. The name has at most 11 characters.
func (l *Lab) Machine(name string) (*Machine, error) {
	m := &Machine{Name: name, Address: l.next, namespace: netns.None()}
	if err := errors.Join(m.make(), m.connect(l.bridge)); err != nil {
		return nil, errors.Join(fmt.Errorf("netlab: making the machine %s: %w", name, err), m.close())
	}
	l.next = l.next.Next()
	l.machines = append(l.machines, m)
	return m, nil
}

// make makes the namespace.
func (m *Machine) make() error {
	runtime.LockOSThread()
	here, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	m.namespace, err = netns.New() // in which this thread now is
	if err := errors.Join(err, netns.Set(here), here.Close()); err != nil {
		return err // and the thread, which may be elsewhere, is not used again
	}
	runtime.UnlockOSThread()
	m.handle, err = netlink.NewHandleAt(m.namespace)
	return err
}

// connect lays the cable to the bridge.
func (m *Machine) connect(bridge netlink.Link) error {
	if m.handle == nil {
		return nil // it could not be made
	}
	outer, inner := "lab-"+m.Name, "eth0"
	err := netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: outer, MasterIndex: bridge.Attrs().Index},
		PeerName:  inner, PeerNamespace: netlink.NsFd(m.namespace),
	})
	if err != nil {
		return err
	}
	if m.outer, err = netlink.LinkByName(outer); err != nil {
		return err
	}
	if m.inner, err = m.handle.LinkByName(inner); err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(m.outer), loopbackUp(m.handle), up(m.handle, m.inner, m.Address))
}

func (m *Machine) close() error {
	if m.handle != nil {
		m.handle.Close()
	}
	var err error
	if m.outer != nil {
		err = netlink.LinkDel(m.outer)
	}
	if m.namespace.IsOpen() {
		err = errors.Join(err, m.namespace.Close())
	}
	return err
}

func loopbackUp(handle *netlink.Handle) error {
	link, err := handle.LinkByName("lo")
	if err != nil {
		return err
	}
	return handle.LinkSetUp(link)
}

// up gives a link an address and starts it.
func up(handle *netlink.Handle, link netlink.Link, address netip.Addr) error {
	err := handle.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(Subnet.Bits(), 32)}})
	return errors.Join(err, handle.LinkSetUp(link))
}
