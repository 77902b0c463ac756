package spec

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sage-sandbox/sage/egress"
)

// Egress is what the host's file says of the proxies themselves.
type Egress struct {
	UID, GID    uint32           // that they run as; no other process should
	Nameservers []netip.AddrPort // instead of those of where the proxy dials from
	// Reachable are networks that an allowed name may lead to though they are
	// not public: the exceptions to every rule about addresses.
	Reachable []netip.Prefix
	// JavaToolOptions sets JAVA_TOOL_OPTIONS, which every JVM prints a line for.
	JavaToolOptions bool
}

// defaultEgressID is a user and group that no distribution gives out: above the
// range of people's, below those of containers' user namespaces.
const defaultEgressID = 64317

func defaultEgress() Egress {
	return Egress{UID: defaultEgressID, GID: defaultEgressID, JavaToolOptions: true}
}

func (f *hostFile) readEgress(it item) error {
	e := &f.Egress
	return it.fields(map[string]func(item) error{
		"uid": egressID(&e.UID), "gid": egressID(&e.GID),
		"nameservers": entriesOf(&e.Nameservers, parseNameserver),
		"reachable":   entriesOf(&e.Reachable, parseReachable),
		"java_tool_options": func(it item) (err error) {
			e.JavaToolOptions, err = it.flag()
			return err
		},
	})
}

func egressID(into *uint32) func(item) error {
	return func(it item) error {
		n, err := it.number()
		if err == nil && (n < 1 || n >= 1<<32-1) {
			err = it.fault("saw %d, want 1 to %d: the proxy never runs as root", n, int64(1<<32-2))
		}
		*into = uint32(n)
		return err
	}
}

// entriesOf reads a list of strings, each by parse, into the form in which two
// lists that say the same are equal.
func entriesOf[T interface {
	comparable
	String() string
}](into *[]T, parse func(string) (T, error)) func(item) error {
	return func(it item) error {
		list, err := it.list(nodeString)
		if err != nil {
			return err
		}
		var out []T
		for i, text := range list {
			v, err := parse(text)
			if err != nil {
				return faultAt(it.values[i].line, fmt.Sprintf("%s[%d]", it.key, i), err)
			}
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
		*into = out
		return nil
	}
}

// parseNameserver reads an address with a port, or one for port 53.
func parseNameserver(s string) (netip.AddrPort, error) {
	h, port, err := egress.ParseAuthority(s, 53)
	if addr, bare := netip.ParseAddr(s); bare == nil {
		h, port, err = egress.HostOf(addr), 53, nil
	}
	switch {
	case err != nil:
		return netip.AddrPort{}, err
	case !h.IsIP() || h.Addr().IsUnspecified() || h.Addr().IsMulticast():
		return netip.AddrPort{}, errors.New("saw no address of a nameserver, want IP, IP:PORT or [IPv6]:PORT")
	}
	return netip.AddrPortFrom(h.Addr(), port), nil
}

// parseReachable reads a network or one address. One that is not its own first
// address has been meant in another way than it would be read.
func parseReachable(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" && !addr.Is4In6() {
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil || p.Addr().Is4In6():
		return netip.Prefix{}, errors.New("saw no network, want ADDRESS/BITS or an address; names are for network.allowed_hosts")
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("saw a network with bits behind its mask, want %s", p.Masked())
	}
	return p, nil
}

// proxied tells of the modes in which there is a proxy at all.
func (m NetworkMode) proxied() bool { return m == NetworkAllowlist || m == NetworkProxy }

// fill sets the part of a network's policy that the host's file decides
// for every container that has a proxy.
func (e Egress) fill(n *Network) {
	n.Nameservers, n.Reachable = []string{}, []string{}
	if !n.Mode.proxied() {
		return
	}
	n.Nameservers, n.Reachable, n.JavaToolOptions = texts(e.Nameservers), texts(e.Reachable), e.JavaToolOptions
}

func texts[T fmt.Stringer](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.String()
	}
	return out
}

func portTexts(list []uint16) []string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = strconv.Itoa(int(n))
	}
	return out
}

// EgressPolicy is the part of a policy that the proxy decides by, in its own
// terms. It fails on a policy that [Resolve] has not made.
func EgressPolicy(p Policy) (egress.Policy, error) {
	n := p.Network
	allow, err := egressRules("allowed_hosts", n.AllowedHosts)
	if err != nil {
		return egress.Policy{}, err
	}
	deny, err := egressRules("denied_hosts", n.DeniedHosts)
	if err != nil {
		return egress.Policy{}, err
	}
	upstream, err := upstreamOf(n.ProxyURL)
	if err != nil {
		return egress.Policy{}, err
	}
	return egress.Policy{
		Mode: egress.Mode(n.Mode), Allow: allow, Deny: deny, Ports: slices.Clone(n.AllowedPorts), Schemes: slices.Clone(n.AllowedSchemes),
		DenyPrivate: n.DenyPrivateNetworks, Upstream: upstream, ECH: egress.ECH(n.ECH), Transparent: n.Transparent,
		Limits: egress.Limits{
			Wall:   time.Duration(n.MaxWallTimeSeconds) * time.Second,
			Upload: n.MaxRequestBodyBytes, Download: n.MaxResponseBytes, Total: n.MaxTotalBytes,
			Connections: int(n.MaxConnections), Active: int(n.MaxActive),
		},
	}, nil
}

func egressRules(key string, list []string) ([]egress.Rule, error) {
	rules := make([]egress.Rule, len(list))
	for i, text := range list {
		if err := rules[i].UnmarshalText([]byte(text)); err != nil {
			return nil, fmt.Errorf("network.%s: entry %d: %w", key, i+1, err)
		}
	}
	return rules, nil
}

// upstreamOf takes apart what [parseProxyURL] has put together.
func upstreamOf(origin string) (*egress.Upstream, error) {
	if origin == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	scheme, authority, _ := strings.Cut(origin, "://")
	h, port, err := egress.ParseAuthority(authority, 0)
	if err != nil {
		return nil, fmt.Errorf("network.proxy_url: %w", err)
	}
	return &egress.Upstream{Scheme: scheme, Host: h.String(), Port: port}, nil
}
