package egress

import (
	"errors"
	"net/netip"
	"strings"
)

// Host is where one connection is to go: a name or an IP address, in the one
// form in which two spellings are equal, so that == compares two. The zero
// value is no host, and no rule matches it.
type Host struct {
	name string
	addr netip.Addr
}

// ParseHost reads a host as it stands in a request, by the rules of
// [ParsePattern] but without wildcards; an IPv6 address with or without
// brackets. Its errors repeat nothing of s, which may come from a hostile
// program and go to a log.
func ParseHost(s string) (Host, error) {
	addr, err := parseAddr(s)
	if err != nil || addr.IsValid() {
		return Host{addr: addr}, err
	}
	if strings.Contains(s, "*") {
		return Host{}, errors.New(`saw "*", want one host`)
	}
	name, err := canonical(s)
	return Host{name: name}, err
}

// HostOf is the host that is an address. An IPv4 address in IPv6 form becomes
// the IPv4 address, and a zone is dropped: a connection that the kernel has
// accepted has both.
func HostOf(addr netip.Addr) Host { return Host{addr: addr.Unmap().WithZone("")} }

// String is the canonical form, an IPv6 address without brackets.
func (h Host) String() string {
	if h.IsIP() {
		return h.addr.String()
	}
	return h.name
}

// IsIP tells whether the host is an address.
func (h Host) IsIP() bool { return h.addr.IsValid() }

// Addr is the address, the zero one of a name.
func (h Host) Addr() netip.Addr { return h.addr }

// Name is the name without a dot at its end, "" of an address. A resolver gets
// it with one, so that no search domain is tried.
func (h Host) Name() string { return h.name }

// ParseAuthority reads host:port as a CONNECT has it, an IPv6 address in
// brackets. Without a port it gives otherwise, where that is not 0.
func ParseAuthority(s string, otherwise uint16) (Host, uint16, error) {
	colon := strings.LastIndexByte(s, ':')
	if colon < strings.LastIndexByte(s, ']') {
		colon = -1
	}
	text, port, err := s, otherwise, error(nil)
	switch {
	case colon >= 0:
		text = s[:colon]
		port, err = ParsePort(s[colon+1:])
	case otherwise == 0:
		err = errors.New("saw no port, want host:port")
	}
	if err != nil {
		return Host{}, 0, err
	}
	if strings.Contains(text, ":") && !strings.HasPrefix(text, "[") {
		return Host{}, 0, errors.New("saw an IPv6 address without brackets, want [address]:port")
	}
	h, err := ParseHost(text)
	if err != nil {
		return Host{}, 0, err
	}
	return h, port, nil
}
