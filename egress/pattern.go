package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// Pattern is one entry of an allowlist: a host name, every name below one, or
// an IP address. The zero value covers nothing; [ParsePattern] makes the others.
type Pattern struct {
	name string // canonical, without the wildcard
	kind patternKind
}

type patternKind uint8

const (
	kindNone patternKind = iota
	kindName
	kindBelow // the names below name, and not name itself (C-01)
	kindIP
)

// maxName is the most that DNS allows, in the form without a trailing dot.
const maxName, maxLabel = 253, 63

// ParsePattern reads "host.example", "*.example.com" or an IP address, brought
// into the one form in which two spellings of a host are equal: lower case, no
// trailing dot, labels of letters, digits and hyphens, other scripts in their
// ASCII form. What has no such form is refused, since the resolver that sees
// it later may read it in another way than we did.
func ParsePattern(s string) (Pattern, error) {
	base, wild := strings.CutPrefix(s, "*.")
	if addr, err := parseAddr(base); err != nil || addr.IsValid() {
		if err == nil && wild {
			err = errors.New("an IP address has no subdomains")
		}
		return ipPattern(addr, err)
	}
	name, err := canonical(base)
	switch {
	case err != nil:
		return Pattern{}, err
	case !wild:
		return Pattern{name, kindName}, nil
	case isPublicSuffix(name):
		return Pattern{}, errors.New("saw a wildcard on a public suffix, below which anybody can have a name; want one name more in front")
	}
	return Pattern{name, kindBelow}, nil
}

func ipPattern(addr netip.Addr, err error) (Pattern, error) {
	if err != nil {
		return Pattern{}, err
	}
	return Pattern{addr.String(), kindIP}, nil
}

// String is the canonical form, which parses to the same pattern.
func (p Pattern) String() string {
	if p.kind == kindBelow {
		return "*." + p.name
	}
	return p.name
}

// IsIP tells whether the pattern is an IP address, which only the host's own
// configuration may name: a name can be checked where it leads, an address can
// not.
func (p Pattern) IsIP() bool { return p.kind == kindIP }

// Covers tells whether everything that q allows is allowed by p too.
func (p Pattern) Covers(q Pattern) bool {
	if p.kind == kindNone || q.kind == kindNone {
		return false
	}
	if p == q {
		return true
	}
	return p.kind == kindBelow && q.kind != kindIP && strings.HasSuffix(q.name, "."+p.name)
}

// parseAddr gives an address, the zero one for a name, or an error for what
// some resolvers take for an address and others do not.
func parseAddr(s string) (netip.Addr, error) {
	if strings.HasPrefix(s, "[") || strings.Contains(s, ":") {
		return parse6(s)
	}
	if !endsInNumber(s) {
		return netip.Addr{}, nil
	}
	addr, err := netip.ParseAddr(s)
	if err != nil || !addr.Is4() {
		return netip.Addr{}, errors.New("saw a name that ends in a number; an IPv4 address is written as four decimal numbers without leading zeros")
	}
	return addr, nil
}

func parse6(s string) (netip.Addr, error) {
	inner := s
	if after, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(after, "]"); !ok {
			return netip.Addr{}, errors.New("saw an open bracket; want [address]")
		}
	}
	addr, err := netip.ParseAddr(inner)
	switch {
	case err != nil || !addr.Is6():
		return netip.Addr{}, errors.New("saw a colon or brackets, which belong to IPv6 addresses only; want a host without port and scheme")
	case addr.Zone() != "":
		return netip.Addr{}, errors.New("saw an IPv6 address with a zone; want one without")
	case addr.Is4In6():
		return netip.Addr{}, errors.New("saw an IPv4 address in IPv6 form; want the IPv4 address")
	}
	return addr, nil
}

// endsInNumber is the rule by which browsers and libc tell an address from a
// name: 127.1, 0x7f000001 and 017700000001 all are the loopback to some.
func endsInNumber(s string) bool {
	s = strings.TrimSuffix(s, ".")
	last := s[strings.LastIndexByte(s, '.')+1:]
	if hex, ok := strings.CutPrefix(strings.ToLower(last), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// canonical brings a host name into its one form.
func canonical(s string) (string, error) {
	name := strings.TrimSuffix(s, ".")
	if strings.Contains(s, "*") {
		return "", errors.New(`saw "*" inside a name; a wildcard is the whole first label, as in *.example.com`)
	}
	name, err := toASCII(name)
	if err != nil {
		return "", err
	}
	if name == "" || len(name) > maxName {
		return "", fmt.Errorf("saw a name of %d bytes, want 1 to %d", len(name), maxName)
	}
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	// Mapping can have made an address out of digits of other scripts.
	if endsInNumber(name) {
		return "", errors.New("saw an IP address in another script; want a host name")
	}
	return name, nil
}

// international checks labels as a resolver's library would when it looks one
// up, and maps them; ASCII labels do not pass through it, as it refuses names
// that exist, such as those with hyphens in the third and fourth place.
var international = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.Transitional(false))

func toASCII(name string) (string, error) {
	ascii := !strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 })
	lower := strings.ToLower(name)
	if ascii && !strings.Contains(lower, "xn--") {
		return lower, nil
	}
	mapped, err := international.ToASCII(name)
	// The package takes a byte that is not UTF-8 for the replacement character.
	if err != nil || !utf8.ValidString(name) || ascii && mapped != lower {
		return "", errors.New("saw a name that is not a valid internationalized domain name")
	}
	return mapped, nil
}

func checkLabel(label string) error {
	const ldh = "abcdefghijklmnopqrstuvwxyz0123456789-"
	switch {
	case label == "" || len(label) > maxLabel:
		return fmt.Errorf("saw a label of %d bytes between dots, want 1 to %d", len(label), maxLabel)
	case strings.ContainsFunc(label, func(r rune) bool { return !strings.ContainsRune(ldh, r) }):
		return errors.New("saw a byte that is no letter, digit or hyphen; want a host name without port, scheme and path")
	case label[0] == '-' || label[len(label)-1] == '-':
		return errors.New("saw a label that begins or ends with a hyphen")
	}
	return nil
}
