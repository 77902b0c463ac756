package bridge

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/egress"
	"github.com/sage-sandbox/sage/internal/errcode"
)

// Port is the proxy's in a network namespace of the container's own, and the
// first that is tried in a shared one, where up to portRange are.
const (
	Port      = 3128
	portRange = 512
)

// maxTransparent bounds the listeners of one container: each costs the kernel
// some 3 KiB and the bridge a descriptor.
const maxTransparent = 64

// backlog is how many connections wait in the kernel for the bridge, for each
// listener. Beyond it a client's SYN is dropped and sent again (listen(2)).
const backlog = 256

// Options say which sockets a container's bridge is to have.
type Options struct {
	// Own says that the network namespace is the container's own. Then the ports
	// are fixed, and there is a transparent path where Transparent has ports.
	Own         bool
	Transparent []uint16
	// Unix is where the Unix socket is made and Control where a proxy is handed
	// to the bridge: paths in a folder of mode 0700. Neither may exist.
	Unix, Control string
}

// Sockets are a bridge's listening sockets, made and bound.
type Sockets struct {
	Port    uint16 // of 127.0.0.1, and of ::1 where there is IPv6
	TCP     []Listener
	Unix    int
	Control int
	DNS     int // UDP, -1 without a transparent path
	Diag    int // NETLINK_SOCK_DIAG, which tells the container's connections from others'
}

// Listener is one listening socket and what comes in by it.
type Listener struct {
	FD   int
	Kind egress.Kind
}

// Listen makes every socket of a bridge in the network namespace of the calling
// thread, which must be locked to its goroutine, and with the privileges of the
// namespace's owner. Every listener is bound to device lo: a neighbour that
// sends to 127.0.0.1 or to a synthetic address from outside is not heard, even
// where route_localnet is set. None has SO_REUSEPORT, with which another
// process of the same user could share the port.
func Listen(o Options) (*Sockets, error) {
	s := &Sockets{Unix: -1, Control: -1, DNS: -1, Diag: -1}
	if err := s.listen(o); err != nil {
		s.Close()
		return nil, errcode.Wrap(errcode.EgressUnavailable, "listen for the container's connections", err)
	}
	return s, nil
}

func (s *Sockets) listen(o Options) error {
	if !o.Own && len(o.Transparent) > 0 || len(o.Transparent) > maxTransparent {
		return fmt.Errorf("transparent path: saw %d ports, want %d at most, and none in a shared network namespace", len(o.Transparent), maxTransparent)
	}
	var err error
	if s.Unix, err = listenUnix(o.Unix, unix.SOCK_STREAM, 0o666); err != nil {
		return err
	}
	if s.Control, err = listenUnix(o.Control, unix.SOCK_SEQPACKET, 0o600); err != nil {
		return err
	}
	if s.Diag, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG); err != nil {
		return os.NewSyscallError("socket(NETLINK_SOCK_DIAG)", err)
	}
	if !o.Own {
		return s.listenShared()
	}
	if err := raiseLoopback(len(o.Transparent) > 0); err != nil {
		return err
	}
	if err := s.listenPort(Port); err != nil {
		return err
	}
	if len(o.Transparent) == 0 {
		return nil
	}
	return s.listenTransparent(o.Transparent)
}

// listenShared takes the next port that nobody has.
func (s *Sockets) listenShared() error {
	for port := uint16(Port); port < Port+portRange; port++ {
		err := s.listenPort(port)
		if err == nil || !errors.Is(err, unix.EADDRINUSE) {
			return err
		}
		s.closeTCP()
	}
	return fmt.Errorf("ports %d to %d of 127.0.0.1 and ::1: all are in use", Port, Port+portRange-1)
}

// listenPort takes the port of both loopback addresses, or neither. A host
// without IPv6 has no ::1; any other failure to get it would leave the port of
// ::1 to somebody else.
func (s *Sockets) listenPort(port uint16) error {
	if err := s.addTCP(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), egress.KindProxy); err != nil {
		return err
	}
	err := s.addTCP(netip.AddrPortFrom(netip.IPv6Loopback(), port), egress.KindProxy)
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
		err = nil
	}
	s.Port = port
	return err
}

// listenTransparent is one listener for each port, on every address, and the
// stub resolver on the one that the container's resolv.conf names.
func (s *Sockets) listenTransparent(ports []uint16) error {
	for _, port := range ports {
		if err := s.addTCP(netip.AddrPortFrom(netip.IPv4Unspecified(), port), egress.KindTransparent); err != nil {
			return err
		}
	}
	if err := s.addTCP(egress.Resolver, egress.KindDNS); err != nil {
		return err
	}
	var err error
	s.DNS, err = bound(egress.Resolver, unix.SOCK_DGRAM)
	return err
}

func (s *Sockets) addTCP(at netip.AddrPort, kind egress.Kind) error {
	fd, err := bound(at, unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	s.TCP = append(s.TCP, Listener{fd, kind})
	if err := unix.Listen(fd, backlog); err != nil {
		return fmt.Errorf("%v: %w", at, os.NewSyscallError("listen", err))
	}
	return nil
}

// bound makes a socket that hears device lo alone.
func bound(at netip.AddrPort, kind int) (int, error) {
	family := unix.AF_INET
	if at.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("%v: %w", at, os.NewSyscallError("socket", err))
	}
	if err := bind(fd, at); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("%v: %w", at, err)
	}
	return fd, nil
}

func bind(fd int, at netip.AddrPort) error {
	if err := unix.BindToDevice(fd, "lo"); err != nil {
		return os.NewSyscallError("setsockopt(SO_BINDTODEVICE)", err)
	}
	if at.Addr().Is4() {
		return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}))
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
		return os.NewSyscallError("setsockopt(IPV6_V6ONLY)", err)
	}
	return os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}))
}
