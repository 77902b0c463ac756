package spec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sage-sandbox/sage/egress"
)

// anyHost is the rule for every name, which a bundle may have where the host
// lists it. anyName is the ceiling of a host that lists nothing: what names
// there are is left to bundles, one by one. It is no rule, so that nothing that
// is enforced can read it as one.
const (
	anyHost = "*"
	anyName = "any host name, and no IP address"
)

// hostScope is what a list of hosts is compared under: in the mode proxy an
// empty one means every host, and a rule without scheme and port stands for the
// ceilings of these.
type hostScope struct {
	mode    NetworkMode
	schemes []string
	ports   []uint16
}

func (p *Profile) hostScope(mode NetworkMode) hostScope {
	schemes, _ := p.ceiling(mustSetting(keySchemes))
	numbers, _ := p.ceiling(mustSetting(keyPorts))
	return hostScope{mode, schemes.list, ports(numbers.list)}
}

// openHosts tells of a ceiling under which any name may be had.
func openHosts(ceiling []string) bool {
	return slices.Contains(ceiling, anyHost) || slices.Contains(ceiling, anyName)
}

func overHosts(list, ceiling []string, scope hostScope) error {
	if scope.mode == NetworkProxy && len(list) == 0 && !openHosts(ceiling) {
		return errors.New("saw no hosts, which in the mode proxy is every host, want a part of the host's list")
	}
	most, open := ceilingRules(ceiling)
	for _, entry := range list {
		r, err := egress.ParseRule(entry)
		if err == nil && !scope.covered(r, most, open) {
			err = fmt.Errorf("saw %s, want a part of: %s (schemes %s; ports %s)", entry, listText(ceiling), listText(scope.schemes), listText(portTexts(scope.ports)))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ceilingRules reads a ceiling; open is that of a host that lists nothing.
func ceilingRules(ceiling []string) (rules []egress.Rule, open bool) {
	for _, entry := range ceiling {
		if entry == anyName {
			entry, open = anyHost, true
		}
		if r, err := egress.ParseRule(entry); err == nil {
			rules = append(rules, r)
		}
	}
	return rules, open
}

// covered wants addresses and tcp to be listed one by one: nothing that is
// checked about a name protects from an address, or in bytes of any kind.
func (s hostScope) covered(r egress.Rule, most []egress.Rule, open bool) bool {
	return (!open || !r.IsAny()) && slices.ContainsFunc(most, func(c egress.Rule) bool { return c.Covers(r, s.schemes, s.ports) })
}
