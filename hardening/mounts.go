package hardening

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// mount is one mount of the bundle while it is judged.
type mount struct {
	*specs.Mount
	field string
	facts MountFacts
	asked string // the destination as the bundle has it, clean
	opts  options
}

// mounts judges what the bundle mounts, and adds what the policy wants mounted.
func (h *hardener) mounts() error {
	if got, want := len(h.facts.Mounts), len(h.spec.Mounts); got != want {
		return denied("mounts", "facts are of %d mounts, want of %d", got, want)
	}
	for i := range h.spec.Mounts {
		m, err := h.newMount(i)
		if err == nil {
			err = h.mount(m)
		}
		if err != nil {
			return err
		}
	}
	return h.addMounts()
}

func (h *hardener) newMount(i int) (*mount, error) {
	m := &mount{Mount: &h.spec.Mounts[i], field: fmt.Sprintf("mounts[%d]", i), facts: h.facts.Mounts[i]}
	for _, text := range append([]string{m.Destination, m.Source, m.Type}, m.Options...) {
		if strings.ContainsRune(text, 0) {
			return nil, invalid(m.field, "saw a NUL byte")
		}
	}
	if !path.IsAbs(m.Destination) {
		return nil, invalid(m.field+".destination", "saw %q, want an absolute path", m.Destination)
	}
	if to := m.facts.Destination; !path.IsAbs(to) || path.Clean(to) != to {
		return nil, denied(m.field+".destination", "nothing is known of where %q leads to", m.Destination)
	}
	m.asked = path.Clean(m.Destination)
	var err error
	m.opts, err = parseOptions(m.field, m.Options)
	return m, err
}

func (h *hardener) mount(m *mount) error {
	if err := h.mapped(m); err != nil {
		return err
	}
	switch {
	case m.opts.bind:
		return h.bindMount(m)
	case m.Type == "bind":
		return invalid(m.field+".options", "want bind or rbind among them for a mount of type bind")
	}
	return h.freshMount(m)
}

// mapped leaves id-mapped mounts to containers that have ids of their own.
func (h *hardener) mapped(m *mount) error {
	mapped := m.opts.idmap || len(m.UIDMappings)+len(m.GIDMappings) > 0
	if mapped && holds(h.spec, specs.UserNamespace) != own {
		return denied(m.field, "saw an id-mapped mount, want none without a user namespace of the container's own")
	}
	return nil
}

// set writes the mount down as it was judged: at the destination that was
// looked at, with the options that were left.
func (h *hardener) set(m *mount) {
	h.tighten(m.field+".destination", m.asked, m.facts.Destination, "where the symlinks of the image lead")
	m.Destination = m.facts.Destination
	was, now := m.Options, m.opts.list()
	if !sameSet(was, now) {
		h.tighten(m.field+".options", strings.Join(was, ","), strings.Join(now, ","), "how "+m.Destination+" may be mounted")
		m.Options = now
	}
}

func sameSet(a, b []string) bool { return len(without(a, b))+len(without(b, a)) == 0 }

// fresh is how a file system that the kernel makes anew may be mounted.
type fresh struct {
	at       string   // the only place, "" for any
	data     []string // options of its own that may be given, up to the "="
	readonly bool
	devices  bool // its device nodes are what it is for
}

var freshMounts = map[string]fresh{
	"proc":    {at: "/proc", data: []string{"hidepid", "subset"}},
	"sysfs":   {at: "/sys", readonly: true},
	"cgroup":  {at: "/sys/fs/cgroup", readonly: true},
	"cgroup2": {at: "/sys/fs/cgroup", readonly: true},
	"mqueue":  {at: "/dev/mqueue"},
	"devpts":  {at: "/dev/pts", data: []string{"newinstance", "ptmxmode", "mode", "gid", "uid", "max"}, devices: true},
	"tmpfs":   {data: []string{"mode", "uid", "gid", "size", "nr_blocks", "nr_inodes", "inode32", "inode64", "noswap", "huge"}},
}

func (h *hardener) freshMount(m *mount) error {
	rule, ok := freshMounts[m.Type]
	if !ok {
		return denied(m.field+".type", "saw %.40q, want a bind mount or one of cgroup, cgroup2, devpts, mqueue, proc, sysfs, tmpfs", m.Type)
	}
	if err := h.place(m, rule); err != nil {
		return err
	}
	for _, option := range m.opts.data {
		if name, _, _ := strings.Cut(option, "="); !slices.Contains(rule.data, name) {
			return denied(m.field+".options", "saw %.40q, want only options of %s that sage knows", option, m.Type)
		}
	}
	m.opts.nosuid = true
	m.opts.nodev = !rule.devices && m.facts.Destination != "/dev"
	m.opts.ro = m.opts.ro || rule.readonly
	if m.Type == "tmpfs" {
		h.tmpfs(m)
	} else {
		m.opts.noexec = true
		m.opts.ro = m.opts.ro || m.Type == "proc" && h.policy.Files.ReadonlyProc
	}
	h.set(m)
	return nil
}

// place keeps the kernel's file systems where programs, masked paths and
// libcontainer expect them. A symlink of the image may not move them.
func (h *hardener) place(m *mount, rule fresh) error {
	at := rule.at
	if m.Type == "tmpfs" && m.asked == "/dev" {
		at = "/dev"
	}
	if at == "" {
		return h.destination(m, true)
	}
	if m.asked != at || m.facts.Destination != at {
		return denied(m.field+".destination", "saw %q, which leads to %q in the image, want %s for %s", m.asked, m.facts.Destination, at, m.Type)
	}
	return nil
}

// tmpfs gives every one a size, since 0 and an absent one mean half of the
// host's memory or all of it; the cgroup counts the pages besides.
func (h *hardener) tmpfs(m *mount) {
	m.opts.data = tmpfsData(m.opts.data, h.policy.Resources.MemoryBytes)
	switch m.facts.Destination {
	case "/dev/shm":
		m.opts.noexec = true
	case "/dev":
		// Device nodes of it stay writable, and what is mounted below it too.
		m.opts.ro = m.opts.ro || h.policy.Files.ReadonlyRoot
	}
}
