package proxy

import (
	"encoding/binary"
	"net/netip"
	"sync"

	"github.com/sage-sandbox/sage/egress"
)

// maxNames bounds the table. A rule with a wildcard lets a program ask for as
// many names as it likes; each costs some 350 bytes at most, so the table stays
// below 3 MiB. None is ever taken out again, since a client may keep an address
// for as long as it likes, and it must not become another name's.
const maxNames = 8192

// firstName is the first address that stands for a name: 198.18.0.0 and the
// resolver's are kept free.
const firstName = 2

// synthetic gives each name one address for the life of the container.
type synthetic struct {
	mu        sync.Mutex
	addresses map[egress.Host]uint32 // places in names
	names     []egress.Host
}

// address is the name's, a new one if it had none, or none where the table is
// full.
func (s *synthetic) address(name egress.Host) (addr netip.Addr, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, ok := s.addresses[name]
	if !ok {
		if len(s.names) == maxNames {
			return netip.Addr{}, false
		}
		if s.addresses == nil {
			s.addresses = map[egress.Host]uint32{}
		}
		place = uint32(len(s.names))
		s.names = append(s.names, name)
		s.addresses[name] = place
	}
	return at(firstName + place), true
}

// name is the one that the address was given to.
func (s *synthetic) name(addr netip.Addr) (egress.Host, bool) {
	if addr = addr.Unmap(); !egress.Synthetic.Contains(addr) {
		return egress.Host{}, false
	}
	place := int(offset(addr)) - firstName
	s.mu.Lock()
	defer s.mu.Unlock()
	if place < 0 || place >= len(s.names) {
		return egress.Host{}, false
	}
	return s.names[place], true
}

func at(place uint32) netip.Addr {
	base := egress.Synthetic.Addr().As4()
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(base[:])+place)))
}

func offset(addr netip.Addr) uint32 {
	base, raw := egress.Synthetic.Addr().As4(), addr.As4()
	return binary.BigEndian.Uint32(raw[:]) - binary.BigEndian.Uint32(base[:])
}
