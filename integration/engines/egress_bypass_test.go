//go:build engines

package engines

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/caller"
	"github.com/sage-sandbox/sage/integration/harness"
)

// TestEgressDockerBypass runs every probe in a container on each network, first
// without a policy and with every right, where what the probe sends is seen
// outside, then with an allowlist, where nothing is. Docker's own seccomp profile
// is off: what is refused, sage refuses.
//
// Proves: S-069, S-079, E-060, G-05, G-06.
func TestEgressDockerBypass(t *testing.T) {
	dockerClient(t)
	newWorld(t)
	withUserNetwork(t)
	names := caller.Names()
	table := newBypassTable(names)
	for _, n := range egressNetworks {
		t.Run(n.name, func(t *testing.T) {
			at := placesOf(t, n)
			open, free := probeFrom(t, newDocker(t, "sage"), n, at, []string{"--privileged"})
			shut, confined := probeFrom(t, newDocker(t, n.file.docker()), n, at, allowedHosts("allowed.test", "--security-opt=seccomp=unconfined"))
			for i, name := range names {
				table.add(name, open[name], free[i], shut[name], confined[i])
				if got, want := shut[name], refusalOf(name); got != want {
					t.Errorf("%s: got %q, want %q", name, got, want)
				}
				if confined[i] {
					t.Errorf("%s: what it sent was seen outside", name)
				}
				if leaves(n.name, name) && !free[i] {
					t.Errorf("%s, without a policy: nothing was seen outside, so the row proves nothing", name)
				}
			}
		})
	}
	t.Logf("every way out, by what came of it\n%s", table.String())
}

// probeFrom runs the probes, and tells by their numbers which were seen outside.
func probeFrom(t *testing.T, d docker, n egressNetwork, at caller.Places, flags []string) (map[string]string, map[int]bool) {
	t.Helper()
	seen := watchPackets(t)
	r := d.try(t, slices.Concat([]string{"run", "--rm", "--runtime", d.runtime}, n.flags, flags, []string{clientImage}, does(at.Args()))...)
	r.want(t, 0, ": done")
	if t.Failed() {
		t.FailNow()
	}
	return outcomesOf(r.out), seen()
}

// placesOf starts a neighbour, and looks the rest up.
func placesOf(t *testing.T, n egressNetwork) caller.Places {
	t.Helper()
	p := caller.Places{
		Gateway4: "10.213.0.1", Gateway6: "fd14::1", Private4: worldPrivate, Private6: worldPrivate6, Public4: worldIP, Public6: worldPublic6,
		LinkLocal6: "fe80::77", Neighbour4: "10.213.0.99", Device: "eth0",
	}
	if n.name == "none" {
		return p
	}
	d := newDocker(t, "sage")
	id := d.must(t, slices.Concat([]string{"run", "--detach", "--runtime", "sage"}, n.flags, []string{clientImage, "sleep", "1000"})...)
	t.Cleanup(func() { d.quietly("rm", "--force", id) })
	network := strings.TrimPrefix(n.flags[0], "--network=")
	field := func(name string) string {
		return d.inspect(t, id, fmt.Sprintf("(index .NetworkSettings.Networks %q).%s", network, name))
	}
	p.Gateway4, p.Neighbour4 = field("Gateway"), field("IPAddress")
	p.Gateway6 = cmp.Or(field("IPv6Gateway"), p.Gateway6)
	addBeside(t, p.Gateway4, p.LinkLocal6)
	return p
}

// addBeside gives a link-local address to the link that has another address.
func addBeside(t *testing.T, ip, local string) {
	t.Helper()
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		addrs, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err == nil && slices.ContainsFunc(addrs, func(a netlink.Addr) bool { return a.IP.String() == ip }) {
			harness.LinkUp(t, link.Attrs().Name, local+"/64")
			return
		}
	}
	t.Fatalf("saw no link with the address %s", ip)
}

// refusals are what a program is told, by how the row's name begins; the first
// that fits counts. What is a socket of the internet is refused by the guard,
// whatever lies at the address; what is none, by the second seccomp layer.
var refusals = []struct{ begins, errno string }{
	{"SCTP", unix.EPROTONOSUPPORT.Error()},
	{"UDP-Lite", unix.EPROTONOSUPPORT.Error()},
	{"ping", unix.EPROTONOSUPPORT.Error()},
	{"raw", unix.EPERM.Error()},
	{"packet socket", unix.EAFNOSUPPORT.Error()},
	{"SOCK_PACKET", unix.EPERM.Error()},
	{"IGMP", unix.ENOPROTOOPT.Error()},
	{"MLD", unix.ENOPROTOOPT.Error()},
	{"vsock", unix.EAFNOSUPPORT.Error()},
	{"XDP", unix.EAFNOSUPPORT.Error()},
	{"netlink, a route", unix.EPERM.Error()},
	{"netlink", unix.EPROTONOSUPPORT.Error()},
	{"DNS over TCP to systemd's", unix.ECONNREFUSED.Error()}, // its own loopback, where nobody listens
	{"DNS to systemd's", unix.ECONNREFUSED.Error()},
	{"", unix.ENETUNREACH.Error()},
}

func refusalOf(name string) string {
	i := slices.IndexFunc(refusals, func(r struct{ begins, errno string }) bool { return strings.HasPrefix(name, r.begins) })
	return refusals[i].errno
}

// leaves says of a row whether without a policy it gets out of a container on
// that network. Else there is no network, the kernel has no such protocol, or
// nothing of it is a packet.
func leaves(network, name string) bool {
	v6 := strings.Contains(name, "IPv6") || strings.HasPrefix(name, "MLD")
	switch {
	case network == "none", strings.HasPrefix(name, "SCTP"), strings.Contains(name, "systemd's"):
		return false
	case strings.HasPrefix(name, "vsock"), strings.HasPrefix(name, "netlink"), name == "XDP", name == "SOCK_PACKET":
		return false
	case network == "bridge" && (v6 || strings.Contains(name, "Docker's resolver")):
		return false // IPv6 and that resolver are a user-defined network's
	case strings.HasPrefix(name, "DNS over TCP"):
		return false // the name is sent only after somebody has answered
	}
	return true
}

// bypassTable is what is printed.
type bypassTable struct {
	names []string
	cells map[string][]string // by name
}

func newBypassTable(names []string) bypassTable {
	return bypassTable{names, map[string][]string{}}
}

// add has for a network what came of a probe without a policy, and with one.
func (b bypassTable) add(name, open string, free bool, shut string, leaked bool) {
	seen := func(came string, arrived bool) string {
		if arrived {
			return "SEEN OUTSIDE"
		}
		return strings.Replace(came, "<nil>", "no error", 1)
	}
	b.cells[name] = append(b.cells[name], seen(open, free), seen(shut, leaked))
}

func (b bypassTable) String() string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "probe")
	for _, n := range egressNetworks {
		fmt.Fprintf(w, "\t%s, no policy\twith an allowlist", n.name)
	}
	for _, name := range b.names {
		fmt.Fprintf(w, "\n%s\t%s", name, strings.Join(b.cells[name], "\t"))
	}
	_ = w.Flush()
	return out.String()
}

// watchPackets looks at every packet of every link of the capsule, which has all
// bridges and the host's ends of all pairs; the result gives the numbers of the
// probes that were among them.
func watchPackets(t *testing.T) func() map[int]bool {
	t.Helper()
	const all = 0x0300 // ETH_P_ALL, in the order of the network
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	}
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() map[int]bool {
		defer unix.Close(fd)
		seen := map[int]bool{}
		for buffer := make([]byte, 1<<16); ; {
			n, _, err := unix.Recvfrom(fd, buffer, 0)
			if err != nil { // nothing came any more
				return seen
			}
			for _, number := range signsOf(buffer[:n]) {
				seen[number] = true
			}
		}
	}
}

// signsOf finds the probe's text, its port as that of a TCP or UDP header, and
// its group's address.
func signsOf(packet []byte) (numbers []int) {
	text := string(packet)
	for _, part := range strings.Split(text, caller.Mark)[1:] {
		var number int
		if n, _ := fmt.Sscanf(part, "%d", &number); n == 1 {
			numbers = append(numbers, number)
		}
	}
	const ether = 14
	if len(packet) < ether+40 {
		return append(numbers, groupsOf(text)...)
	}
	ip := packet[ether:]
	protocol, header := ip[9], int(ip[0]&15)*4
	if ip[0]>>4 == 6 {
		protocol, header = ip[6], 40
	}
	if (protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_UDP) && len(ip) >= header+4 {
		if port := int(ip[header+2])<<8 | int(ip[header+3]); port >= caller.FirstPort && port < caller.FirstPort+500 {
			numbers = append(numbers, port-caller.FirstPort)
		}
	}
	return append(numbers, groupsOf(text)...)
}

func groupsOf(text string) (numbers []int) {
	four := netip.MustParseAddr(caller.Group4 + "0").AsSlice()
	six := netip.MustParseAddr(caller.Group6 + "0").AsSlice()
	for _, prefix := range []string{string(four[:3]), string(six[:15])} {
		for _, part := range strings.Split(text, prefix)[1:] {
			if part != "" {
				numbers = append(numbers, int(part[0]))
			}
		}
	}
	return numbers
}
