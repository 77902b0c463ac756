package hardening

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

// standard are the devices of every container, as the runtime specification
// has them; libcontainer makes the nodes.
var standard = []spec.Device{
	{Path: "/dev/null", Type: "c", Major: 1, Minor: 3},
	{Path: "/dev/zero", Type: "c", Major: 1, Minor: 5},
	{Path: "/dev/full", Type: "c", Major: 1, Minor: 7},
	{Path: "/dev/random", Type: "c", Major: 1, Minor: 8},
	{Path: "/dev/urandom", Type: "c", Major: 1, Minor: 9},
	{Path: "/dev/tty", Type: "c", Major: 5, Minor: 0},
}

// terminals have no node of their own: those of devpts, and ptmx is a symlink
// there. /dev/console, 5:1, is not one of them although engines list it: in a
// container it is a pts that is mounted there, and a node of that number, which
// an image can bring, is the console of the host.
var terminals = []spec.Device{
	{Path: "/dev/ptmx", Type: "c", Major: 5, Minor: 2},
	{Path: "/dev/pts", Type: "c", Major: 136, Minor: anyMinor},
}

const anyMinor = -1

// never are devices that no list of a host opens: through each of them the
// kernel can be read, or given code, disks or networks of the container's own.
var never = []spec.Device{
	{Path: "tun", Type: "c", Major: 10, Minor: 200},
	{Path: "fuse", Type: "c", Major: 10, Minor: 229},
	{Path: "kvm", Type: "c", Major: 10, Minor: 232},
	{Path: "vhost-net", Type: "c", Major: 10, Minor: 238},
	{Path: "vhost-vsock", Type: "c", Major: 10, Minor: 241},
	{Path: "userfaultfd", Type: "c", Major: 10, Minor: 126},
	{Path: "loop-control", Type: "c", Major: 10, Minor: 237},
	{Path: "device mapper", Type: "c", Major: 10, Minor: 236},
	{Path: "mem", Type: "c", Major: 1, Minor: 1},
	{Path: "kmem", Type: "c", Major: 1, Minor: 2},
	{Path: "port", Type: "c", Major: 1, Minor: 4},
	{Path: "kmsg", Type: "c", Major: 1, Minor: 11},
	{Path: "oldmem", Type: "c", Major: 1, Minor: 12},
	{Path: "raw", Type: "c", Major: 162, Minor: anyMinor},
	{Path: "loop", Type: "b", Major: 7, Minor: anyMinor},
}

// neverNamed are those whose numbers the kernel gives out at boot.
var neverNamed = strings.Fields("vhost userfaultfd kvm kmsg mem kmem fuse loop dm- mapper net/tun")

func forbidden(d spec.Device) bool {
	name := strings.TrimPrefix(d.Path, "/dev/")
	return slices.ContainsFunc(never, func(n spec.Device) bool {
		return n.Type == d.Type && n.Major == d.Major && (n.Minor == d.Minor || n.Minor == anyMinor)
	}) || slices.ContainsFunc(neverNamed, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// devices leaves the standard ones and, of what the host's file lists, what the
// bundle names. A privileged bundle lists every device of the host: there the
// others are dropped, elsewhere they were asked for and are refused.
func (h *hardener) devices() error {
	l := h.spec.Linux
	var kept []specs.LinuxDevice
	for i, d := range l.Devices {
		field := fmt.Sprintf("linux.devices[%d]", i)
		switch err := h.judgeDevice(field, d); {
		case err == nil:
			kept = append(kept, plain(d))
		case !allDevices(l.Resources):
			return err
		}
	}
	if dropped := len(l.Devices) - len(kept); dropped > 0 {
		h.drop("linux.devices", fmt.Sprintf("%d devices", dropped), "a privileged container gets the same devices as any other")
	}
	l.Devices = kept
	h.deviceRules()
	return nil
}

func (h *hardener) judgeDevice(field string, d specs.LinuxDevice) error {
	asked := device(d)
	text := fmt.Sprintf("%s %d:%d at %.80q", asked.Type, asked.Major, asked.Minor, asked.Path)
	switch {
	case slices.Contains(standard, asked), slices.Contains(terminals, asked):
		return nil
	case forbidden(asked):
		return denied(field, "saw %s, which no container may have", text)
	case !slices.Contains(h.policy.Files.Devices, asked):
		return denied(field, "saw %s, want one that devices in the host's file lists, by path, type and numbers", text)
	case path.Clean(asked.Path) != asked.Path || !strings.HasPrefix(asked.Path, "/dev/"):
		return denied(field, "saw %s, want a place in /dev", text)
	}
	return nil
}

// device states what the bundle has in the policy's terms; "u" is an
// unbuffered character device, which Linux has under the one name.
func device(d specs.LinuxDevice) spec.Device {
	if d.Type == "u" {
		d.Type = "c"
	}
	return spec.Device{Path: d.Path, Type: d.Type, Major: d.Major, Minor: d.Minor}
}

// plain leaves the permissions of a node and takes what a node does not need.
func plain(d specs.LinuxDevice) specs.LinuxDevice {
	if d.FileMode != nil {
		mode := *d.FileMode & fs.FileMode(0o666)
		d.FileMode = &mode
	}
	return d
}

// allDevices is how engines say --privileged: everything, of any number.
func allDevices(r *specs.LinuxResources) bool {
	if r == nil {
		return false
	}
	return slices.ContainsFunc(r.Devices, func(d specs.LinuxDeviceCgroup) bool {
		return d.Allow && d.Major == nil && d.Minor == nil && (d.Type == "" || d.Type == "a") && strings.ContainsAny(d.Access, "rw")
	})
}

// deviceRules replaces the bundle's rules by nothing but what the devices that
// were kept need. mknod(2) needs none: nodes are made before the program runs.
func (h *hardener) deviceRules() {
	l := h.spec.Linux
	if l.Resources == nil {
		l.Resources = &specs.LinuxResources{}
	}
	rules := []specs.LinuxDeviceCgroup{{Access: "rwm"}}
	open := append(slices.Clone(standard), terminals...)
	for _, d := range l.Devices {
		if asked := device(d); !slices.Contains(open, asked) {
			open = append(open, asked)
		}
	}
	for _, d := range open {
		if access := h.access(d); access != "" {
			rules = append(rules, allow(d, access))
		}
	}
	was, now := rulesText(l.Resources.Devices), rulesText(rules)
	h.tighten("linux.resources.devices", was, now, "the devices of every container, and those kept of the bundle's")
	l.Resources.Devices = rules
}

// access is what the bundle asks for, without mknod, for a device of the host's
// list; the standard ones are for reading and writing.
func (h *hardener) access(d spec.Device) string {
	if slices.Contains(standard, d) || slices.Contains(terminals, d) {
		return "rw"
	}
	var read, write bool
	for _, rule := range h.spec.Linux.Resources.Devices {
		if rule.Allow && covers(rule, d) {
			read = read || strings.Contains(rule.Access, "r")
			write = write || strings.Contains(rule.Access, "w")
		}
	}
	return strings.Repeat("r", number(read)) + strings.Repeat("w", number(write))
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

func covers(rule specs.LinuxDeviceCgroup, d spec.Device) bool {
	return (rule.Type == "" || rule.Type == "a" || rule.Type == d.Type) &&
		(rule.Major == nil || *rule.Major == -1 || *rule.Major == d.Major) &&
		(rule.Minor == nil || *rule.Minor == -1 || *rule.Minor == d.Minor)
}

func allow(d spec.Device, access string) specs.LinuxDeviceCgroup {
	rule := specs.LinuxDeviceCgroup{Allow: true, Type: d.Type, Major: &d.Major, Access: access}
	if d.Minor != anyMinor {
		rule.Minor = &d.Minor
	}
	return rule
}

// rulesText shows rules as the kernel's devices.list does.
func rulesText(rules []specs.LinuxDeviceCgroup) string {
	var out []string
	for _, r := range rules {
		verb := map[bool]string{false: "deny", true: "allow"}[r.Allow]
		kind := r.Type
		if kind == "" {
			kind = "a"
		}
		out = append(out, fmt.Sprintf("%s %s %s:%s %s", verb, kind, numberText(r.Major), numberText(r.Minor), r.Access))
	}
	return strings.Join(out, ", ")
}

func numberText(n *int64) string {
	if n == nil || *n < 0 {
		return "*"
	}
	return fmt.Sprint(*n)
}
