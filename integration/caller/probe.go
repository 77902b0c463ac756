package caller

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// What a probe that gets out carries, so that whoever listens outside can tell
// which one it was: a port, some text, or the address of a group.
const (
	FirstPort = 20000
	Mark      = "sage-probe-"
	Group4    = "239.77.77."
	Group6    = "ff05::77:"
)

// attempt is one way to get a byte to somewhere else. port and mark are its own.
type attempt struct {
	name string
	do   func(s sign) error
}

// sign is by which an attempt is known outside.
type sign struct{ number int }

func (s sign) port() int      { return FirstPort + s.number }
func (s sign) text() []byte   { return fmt.Appendf(nil, "%s%d;", Mark, s.number) }
func (s sign) group4() string { return fmt.Sprint(Group4, s.number) }
func (s sign) group6() string { return fmt.Sprintf("%s%x", Group6, s.number) }
func (s sign) name() string   { return fmt.Sprintf("%s%d.secret.test", Mark, s.number) }

// Places are the addresses to try, by a word for each.
type Places struct {
	Gateway4, Gateway6 string // of the container's own network
	Private4, Private6 string
	Public4, Public6   string
	LinkLocal6         string // of the gateway
	Neighbour4         string // another container of the same network
	Device             string // of the container's network
}

// Args is how Places are told to the program.
func (p Places) Args() string {
	return strings.Join([]string{"probe", p.Gateway4, p.Gateway6, p.Private4, p.Private6, p.Public4, p.Public6, p.LinkLocal6, p.Neighbour4, p.Device}, " ")
}

// Names are the names of all attempts, in their order.
func Names() []string {
	var names []string
	for _, a := range (Places{}).attempts() {
		names = append(names, a.name)
	}
	return names
}

// probe tries all of them, one line for each.
func probe(text string) string {
	f := strings.Fields(text)
	if len(f) != 9 {
		return "want nine places"
	}
	p := Places{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8]}
	for i, a := range p.attempts() {
		fmt.Fprintf(os.Stdout, "%s: %v\n", a.name, a.do(sign{i}))
	}
	return "done"
}

// ways are protocols that are tried with several places.
var ways4 = []struct {
	name string
	to   func(netip.Addr, sign) error
}{
	{"TCP", stream(0)},
	{"MPTCP", stream(unix.IPPROTO_MPTCP)},
	{"SCTP", stream(unix.IPPROTO_SCTP)},
	{"TCP fast open", fastOpen},
	{"UDP", connected},
	{"UDP without connect", datagram(unix.SOCK_DGRAM, 0)},
	{"UDP-Lite", datagram(unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE)},
	{"ping", ping(unix.SOCK_DGRAM)},
	{"raw ICMP", ping(unix.SOCK_RAW)},
	{"raw protocol 253", datagram(unix.SOCK_RAW, 253)},
}

func (p Places) attempts() []attempt {
	var all []attempt
	to := func(ways int, place, address string) {
		addr, _ := netip.ParseAddr(address)
		if addr.Is6() && addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(p.Device)
		}
		for _, w := range ways4[:ways] {
			all = append(all, attempt{w.name + " to " + place, func(s sign) error { return w.to(addr, s) }})
		}
	}
	every := len(ways4)
	to(every, "the gateway", p.Gateway4)
	to(every, "a private address", p.Private4)
	to(every, "a public address", p.Public4)
	to(every, "the gateway by IPv6", p.Gateway6)
	to(every, "a private IPv6 address", p.Private6)
	to(every, "a public IPv6 address", p.Public6)
	const plain = 5 // of these the first
	to(plain, "a neighbour", p.Neighbour4)
	to(plain, "a cloud's metadata", "169.254.169.254")
	to(plain, "a link-local IPv6 address", p.LinkLocal6)
	to(plain, "a mapped public address", "::ffff:"+p.Public4)
	return slices.Concat(all, p.names(), p.links(), sockets())
}

// names are questions to resolvers, put together by hand.
func (p Places) names() []attempt {
	var all []attempt
	for _, place := range [][2]string{
		{"a public resolver", "8.8.8.8"},
		{"a public resolver by IPv6", "2001:4860:4860::8888"},
		{"the gateway", p.Gateway4},
		{"Docker's resolver", "127.0.0.11"},
		{"systemd's resolver", "127.0.0.53"},
	} {
		at := net.JoinHostPort(place[1], "53")
		all = append(all,
			attempt{"DNS to " + place[0], func(s sign) error { return ask("udp", at, s) }},
			attempt{"DNS over TCP to " + place[0], func(s sign) error { return ask("tcp", at, s) }})
	}
	return all
}
