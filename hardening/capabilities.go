package hardening

import (
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// known are the capabilities of Linux 6.18, by number.
var known = strings.Fields(`
	CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_KILL CAP_SETGID CAP_SETUID
	CAP_SETPCAP CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_ADMIN CAP_NET_RAW
	CAP_IPC_LOCK CAP_IPC_OWNER CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT
	CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD
	CAP_LEASE CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG
	CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_AUDIT_READ CAP_PERFMON CAP_BPF CAP_CHECKPOINT_RESTORE`)

// capabilities leaves in every set what the policy has too. The sets are then
// made what execve(2) makes of them, no new privileges being forced, so that
// the init that waits and the program that follows it look the same: root's
// effective and permitted sets become one, another user's become the ambient
// one.
func (h *processor) capabilities() error {
	if h.proc.Capabilities == nil {
		// Without the field libcontainer would leave all of the runtime's.
		h.proc.Capabilities = &specs.LinuxCapabilities{}
		h.add("process.capabilities", "none", "absent would be all that the runtime has")
	}
	c := h.proc.Capabilities
	was := *c
	for _, set := range []*[]string{&c.Bounding, &c.Effective, &c.Permitted, &c.Inheritable, &c.Ambient} {
		if err := knownAll(*set); err != nil {
			return err
		}
		*set = common(*set, h.policy.Process.Capabilities)
	}
	c.Permitted = common(c.Permitted, c.Bounding)
	c.Ambient = common(common(c.Ambient, c.Inheritable), c.Permitted)
	if h.proc.User.UID == 0 {
		c.Ambient = nil
		c.Permitted = common(c.Permitted, c.Effective)
	} else {
		c.Permitted = c.Ambient
	}
	c.Effective, c.Inheritable = slices.Clone(c.Permitted), slices.Clone(c.Ambient)
	c.Permitted = slices.Clone(c.Permitted)
	h.tellCapabilities(was, *c)
	return nil
}

// tellCapabilities leaves out the order and what is said twice.
func (h *processor) tellCapabilities(was, now specs.LinuxCapabilities) {
	for _, set := range []struct {
		name     string
		was, now []string
	}{
		{"bounding", was.Bounding, now.Bounding},
		{"effective", was.Effective, now.Effective},
		{"permitted", was.Permitted, now.Permitted},
		{"inheritable", was.Inheritable, now.Inheritable},
		{"ambient", was.Ambient, now.Ambient},
	} {
		if lost := without(set.was, set.now); len(lost) > 0 {
			h.drop("process.capabilities."+set.name, strings.Join(lost, " "), "not in the policy, or without effect for this user")
		}
	}
}

func knownAll(set []string) error {
	for _, name := range set {
		if !slices.Contains(known, name) {
			return invalid("process.capabilities", "saw %.40q, want the names of capabilities(7)", name)
		}
	}
	return nil
}

// common gives the strings that both hold, sorted and once each.
func common(a, b []string) []string {
	var out []string
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// without gives the strings of a that b lacks, sorted and once each.
func without(a, b []string) []string {
	var out []string
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
