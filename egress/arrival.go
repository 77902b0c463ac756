package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Kind is the way by which a connection reached the bridge.
type Kind uint8

// The kinds. Their numbers stand in messages and files: append only.
const (
	KindProxy       Kind = 1 + iota // the proxy's listener on 127.0.0.1 and ::1
	KindUnix                        // the Unix socket
	KindTransparent                 // made to a synthetic address
	KindDNS                         // the stub resolver's TCP listener
)

var kindNames = [...]string{KindProxy: "proxy", KindUnix: "unix", KindTransparent: "transparent", KindDNS: "dns"}

// Valid tells whether k is one of the kinds.
func (k Kind) Valid() bool { return k >= KindProxy && int(k) < len(kindNames) }

// String is the name that the audit has.
func (k Kind) String() string {
	if !k.Valid() {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return kindNames[k]
}

// Arrival goes from bridge to proxy with each connection's descriptor.
type Arrival struct {
	Kind Kind
	// Local is the address that the connection was made to; the zero one of a
	// Unix socket.
	Local netip.AddrPort
}

// ArrivalSize is the length of an arrival, in bytes: version, kind, port and
// address in network order, the address's family, and zeros.
const ArrivalSize = 32

const (
	arrivalVersion = 1
	arrivalPort    = 2
	arrivalAddr    = 4
	arrivalFamily  = 20 // 4, 6, or 0 for no address
)

// AppendBinary appends the message. Only an address with a zone, which no
// listener of ours can have, fails.
func (a Arrival) AppendBinary(b []byte) ([]byte, error) {
	var m [ArrivalSize]byte
	addr := a.Local.Addr()
	if !a.Kind.Valid() || addr.Zone() != "" {
		return nil, fmt.Errorf("arrival: %v, address %v: want a kind, and no zone", a.Kind, addr)
	}
	m[0], m[1] = arrivalVersion, byte(a.Kind)
	if addr.IsValid() {
		ip := addr.As16()
		copy(m[arrivalAddr:], ip[:])
		binary.BigEndian.PutUint16(m[arrivalPort:], a.Local.Port())
		m[arrivalFamily] = 6
		if addr.Is4() {
			m[arrivalFamily] = 4
		}
	}
	return append(b, m[:]...), nil
}

// ParseArrival reads one message, and refuses all but what AppendBinary makes.
func ParseArrival(b []byte) (Arrival, error) {
	if len(b) != ArrivalSize || b[0] != arrivalVersion {
		return Arrival{}, fmt.Errorf("arrival: saw %d bytes, want %d of version %d", len(b), ArrivalSize, arrivalVersion)
	}
	a := Arrival{Kind: Kind(b[1])}
	if b[arrivalFamily] != 0 {
		addr := netip.AddrFrom16([16]byte(b[arrivalAddr:arrivalFamily]))
		if b[arrivalFamily] == 4 {
			addr = addr.Unmap()
		}
		a.Local = netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[arrivalPort:]))
	}
	if again, err := a.AppendBinary(nil); err != nil || string(again) != string(b) {
		return Arrival{}, fmt.Errorf("arrival: saw a message that no bridge sends")
	}
	return a, nil
}
