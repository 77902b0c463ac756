package runtime

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/spec"
)

// The places that a proxy dials from, as its audit lines have them.
const (
	fromHost   = "host"
	fromEngine = "engine"
)

// dialsFrom settles where the proxy of a container dials from, now that the
// engine has attached what network it wants to. Nobody attached one where a
// container is started in the same moment in which it was made.
func dialsFrom(n *state.Network, dial spec.Dial, pid int, attached bool) (string, error) {
	switch {
	case dial == spec.DialHost:
		return fromHost, nil
	case dial == spec.DialEngine, n.Given:
		return fromEngine, nil
	case !n.Own || !attached:
		return fromHost, nil
	}
	up := false
	err := eachLink(pid, func(_ *netlink.Handle, link netlink.Link) error {
		up = up || link.Attrs().Flags&net.FlagUp != 0
		return nil
	})
	if up {
		return fromEngine, err
	}
	return fromHost, err
}

// putLinksDown puts every link but lo down in the network namespace of pid.
func putLinksDown(pid int) error {
	return eachLink(pid, func(h *netlink.Handle, link netlink.Link) error {
		if err := h.LinkSetDown(link); err != nil {
			return fmt.Errorf("link %s: %w", link.Attrs().Name, err)
		}
		return nil
	})
}

// eachLink calls do for every link but lo in the network namespace of pid.
func eachLink(pid int, do func(*netlink.Handle, netlink.Link) error) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return err
	}
	defer ns.Close()
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer handle.Close()
	links, err := handle.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		if link.Attrs().Flags&net.FlagLoopback != 0 {
			continue
		}
		if err := do(handle, link); err != nil {
			return err
		}
	}
	return nil
}

// nameservers are those of the host's file, or else of the place that the proxy
// dials from: the engine's for its network, the host's for the host's. The file
// in the container is never asked.
func nameservers(record *state.Record, from string) ([]netip.AddrPort, error) {
	if listed := record.Policy.Network.Nameservers; len(listed) > 0 {
		return parseNameservers(listed)
	}
	path := "/etc/resolv.conf"
	if from == fromEngine && record.Network.Resolver != "" {
		path = record.Network.Resolver
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return resolvers(string(data)), nil
}

func parseNameservers(texts []string) (out []netip.AddrPort, err error) {
	for _, text := range texts {
		server, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, fmt.Errorf("egress.nameservers: %w", err)
		}
		out = append(out, server)
	}
	return out, nil
}

// resolvers reads the lines "nameserver" of resolv.conf(5), of which the first
// three count; without any it is the local machine's.
func resolvers(text string) (out []netip.AddrPort) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" || len(out) == 3 {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			out = append(out, netip.AddrPortFrom(addr, 53))
		}
	}
	if len(out) == 0 {
		out = append(out, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 53))
	}
	return out
}
