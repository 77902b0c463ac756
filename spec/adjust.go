package spec

import (
	"errors"
	"fmt"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// adjust settles what depends on more than one value.
func (r *resolver) adjust(given map[string]*request, pause bool) error {
	if err := r.checkNetwork(given); err != nil {
		return err
	}
	if pause {
		r.closePause()
	}
	r.clearNetwork()
	r.bindFileSize()
	r.bindPrivileged()
	return nil
}

// destinations are the values that some modes have no use for.
var destinations = []string{keyHosts, keyDenied, keyPorts, keySchemes, keyProxy, keyTransparent, keyDial, keyECH}

// useless tells whether a mode has no use for a value: none and unrestricted
// look at no destination, and only proxy has a proxy.
func (m NetworkMode) useless(key string) bool {
	switch m {
	case NetworkNone, NetworkUnrestricted:
		return true
	case NetworkAllowlist:
		return key == keyProxy
	case NetworkProxy:
		return false
	}
	return true
}

// checkNetwork refuses what contradicts itself: the bundle that asks for hosts
// and has no network has been written under a wrong idea of what it will get.
func (r *resolver) checkNetwork(given map[string]*request) error {
	mode := r.mode()
	for _, key := range destinations {
		asked := given[key]
		if asked != nil && mode.useless(key) && (asked.s != "" || asked.b || len(asked.list) > 0) {
			return badAnnotation(key, "saw a value that the network mode %s has no use for; want it away, or %s to be another", mode, AnnotationPrefix+keyMode)
		}
	}
	return r.checkMode(mode)
}

// checkMode holds the mode to what it needs. A profile does so by itself; with
// what a bundle has changed of it, it may not.
func (r *resolver) checkMode(mode NetworkMode) error {
	switch {
	case mode == NetworkUnrestricted && r.settled[keyDenyPrivate].b:
		return badAnnotation(keyMode, "unrestricted reaches private networks too; want %s to be false, or another mode", AnnotationPrefix+keyDenyPrivate)
	case mode == NetworkProxy:
		ceiling, _ := r.profile.ceiling(mustSetting(keyHosts))
		if err := overHosts(r.settled[keyHosts].list, ceiling.list, r.profile.hostScope(mode)); err != nil {
			return r.refused(errcode.LimitExceeded, AnnotationPrefix+keyHosts, err)
		}
	}
	return nil
}

// clearNetwork empties what the mode has no use for: the policy says what is
// enforced, and two that enforce the same have one digest.
func (r *resolver) clearNetwork() {
	mode := r.mode()
	for _, key := range destinations {
		if mode.useless(key) {
			r.settled[key] = outcome{source: keyMode + ": " + string(mode), unset: true}
		}
	}
}

// bindFileSize: no file can be larger than the disk it lies on, and a limit
// that says so ends a program before the disk is full (S-022).
func (r *resolver) bindFileSize() {
	file, disk := r.settled[keyFileSize], r.settled[keyDisk]
	if file.unset || file.n > disk.n {
		r.follow(keyFileSize, keyDisk)
	}
}

// bindPrivileged: whoever relies on hard limits does not want a container that
// was meant to be without any.
func (r *resolver) bindPrivileged() {
	if r.settled[keyPrivileged].unset {
		r.follow(keyPrivileged, keyHardLimits)
	}
}

// follow gives one key the value of another.
func (r *resolver) follow(key, of string) {
	out := r.settled[key]
	out.value, out.unset, out.source = r.settled[of].value, false, of
	r.settled[key] = out
}

func mustSetting(key string) setting {
	s, ok := settingByKey(key)
	if !ok {
		panic("spec: no setting " + key)
	}
	return s
}

// check holds a profile of the host's file to itself, as a bundle that asks for
// nothing would meet it.
func (p *Profile) check() error {
	mode := NetworkMode(p.defaults[keyMode].s)
	scope := p.hostScope(mode)
	for _, s := range settingsIn(inDefaults) {
		v, set := p.defaults[s.key]
		ceiling, limited := p.ceiling(s)
		if !set || !limited || s.rule == atMost && v.n == 0 {
			continue
		}
		if err := s.over(v, ceiling, scope); err != nil {
			return p.faultOf(s, v, ceiling, err)
		}
	}
	return p.checkNetwork(mode)
}

// faultOf points at the later of the two lines that do not fit: the other may
// be a built-in one.
func (p *Profile) faultOf(s setting, v, ceiling value, err error) error {
	return faultAt(max(v.line, ceiling.line), join("profiles", p.Name)+".defaults."+s.key,
		fmt.Errorf("the default is above the ceiling (limits.%s): %w", s.ceilingKey(), err))
}

func (p *Profile) checkNetwork(mode NetworkMode) error {
	ceiling, _ := p.ceiling(mustSetting(keyMode))
	hosts, proxy := p.defaults[keyHosts], p.defaults[keyProxy]
	fail := func(v value, key, text string) error {
		return faultAt(v.line, join("profiles", p.Name)+"."+key, errors.New(text))
	}
	can := func(m NetworkMode) bool { return mode == m || mayMode(string(m), ceiling.list) }
	switch {
	case mode == NetworkAllowlist && proxy.s != "":
		return fail(proxy, "defaults.network.proxy_url", "the mode allowlist has no proxy; want none, or the mode proxy")
	case can(NetworkProxy) && proxy.s == "":
		return fail(ceiling, "defaults.network.proxy_url", "saw none, want one: the mode proxy is the default or in limits.network.modes")
	case mode == NetworkUnrestricted && len(hosts.list) > 0:
		return fail(hosts, "defaults.network.allowed_hosts", "the mode unrestricted looks at no hosts; want none, or the mode allowlist")
	case mode == NetworkUnrestricted && len(p.defaults[keyDenied].list) > 0:
		return fail(p.defaults[keyDenied], "defaults.network.denied_hosts", "the mode unrestricted looks at no hosts; want none, or the mode allowlist")
	case can(NetworkUnrestricted):
		return p.checkUnrestricted(mode, ceiling)
	}
	return nil
}

// checkUnrestricted: a mode in which everything is reached makes nonsense of
// every other ceiling, so the host must have said so.
func (p *Profile) checkUnrestricted(mode NetworkMode, modes value) error {
	deny, _ := p.ceiling(mustSetting(keyDenyPrivate))
	fail := func(v value, text string) error {
		return faultAt(max(v.line, modes.line), join("profiles", p.Name)+".limits.network", errors.New(text))
	}
	hosts, limited := p.limits[keyHosts]
	switch {
	case limited && (len(hosts.list) != 1 || hosts.list[0] != anyHost):
		return fail(hosts, "allowed_hosts: saw a list beside the mode unrestricted, which reaches every host; want one of them away")
	case deny.b:
		return fail(deny, "deny_private_networks: saw true beside the mode unrestricted, which reaches private networks; want false, or the mode away")
	case mode == NetworkUnrestricted && p.defaults[keyDenyPrivate].b:
		return fail(p.defaults[keyDenyPrivate], "deny_private_networks: the default is true and the mode unrestricted; want false")
	}
	return nil
}
