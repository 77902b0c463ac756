package hardening

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// addMounts puts each mount of the policy where it does its work: a path is
// protected directly above the mount that it is on, so that what the bundle
// mounts deeper stays visible; /tmp lies below what the bundle has in it; read
// paths come last, since the host's word is.
func (h *hardener) addMounts() error {
	after := make([][]specs.Mount, len(h.spec.Mounts)+1)
	for i := range h.policy.Files.ProtectedPaths {
		if err := h.protect(i, after); err != nil {
			return err
		}
	}
	was := h.spec.Mounts
	out := slices.Clone(after[0])
	for i, m := range was {
		out = append(out, m)
		out = append(out, after[i+1]...)
	}
	h.spec.Mounts = out
	h.addTmp()
	return h.addReadPaths()
}

// addTmp gives programs that were promised a /tmp one where the root is
// read-only (C-15).
func (h *hardener) addTmp() {
	const at = "/tmp"
	mounts := h.spec.Mounts
	if !h.spec.Root.Readonly || slices.ContainsFunc(mounts, func(m specs.Mount) bool { return m.Destination == at }) {
		return
	}
	first := slices.IndexFunc(mounts, func(m specs.Mount) bool { return within(m.Destination, at) })
	if first < 0 {
		first = len(mounts)
	}
	o := options{nosuid: true, nodev: true, data: tmpfsData([]string{"mode=1777"}, h.policy.Resources.MemoryBytes)}
	h.spec.Mounts = slices.Insert(mounts, first, specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: o.list()})
	h.add("mounts", at, "the root is read-only, and programs expect to write there")
}

func (h *hardener) addReadPaths() error {
	paths := h.policy.Files.ReadPaths
	if len(h.facts.ReadPaths) != len(paths) {
		return denied("files.read_paths", "facts are of %d paths, want of %d", len(h.facts.ReadPaths), len(paths))
	}
	for i, at := range paths {
		field := fmt.Sprintf("files.read_paths[%d]", i)
		f := h.facts.ReadPaths[i]
		if why := h.unreadable(at, f); why != "" {
			h.drop(field, at, why)
			continue
		}
		o := options{bind: true, recursive: true, ro: true, nosuid: true, nodev: true}
		m := specs.Mount{Destination: at, Type: "bind", Source: f.Source, Options: o.list()}
		if !h.mounted(m) {
			h.spec.Mounts = append(h.spec.Mounts, m)
			h.add("mounts", at, "a read path of the host's file")
		}
	}
	return nil
}

// unreadable says why a read path of the host is left away, which is no error:
// one file serves hosts of many kinds (S-036).
func (h *hardener) unreadable(at string, f MountFacts) string {
	m := &mount{Mount: &specs.Mount{}, asked: at, facts: MountFacts{Destination: at}}
	switch {
	case f.Kind != SourceDirectory:
		return "no directory of the host"
	case f.Source == "/" || !path.IsAbs(f.Source):
		return "not below the root of the host"
	case kernelOnly("", f, true) != nil:
		return "on a file system of the kernel"
	case withinAny(f.Source, h.policy.Files.WritePaths):
		return "a container may write there"
	case h.destination(m, false) != nil:
		return "no place for a mount in a container"
	}
	return ""
}

func (h *hardener) mounted(m specs.Mount) bool {
	return slices.ContainsFunc(h.spec.Mounts, func(have specs.Mount) bool {
		return have.Destination == m.Destination && have.Source == m.Source && slices.Equal(have.Options, m.Options)
	})
}

// protect mounts a path onto itself, read-only, and each directory between it
// and the root of its mount onto itself as it is. Without the latter a program
// would rename such a directory and make the path anew beside it; a directory
// that is a mount point cannot be renamed (G-10).
func (h *hardener) protect(i int, after [][]specs.Mount) error {
	field := fmt.Sprintf("files.protected_paths[%d]", i)
	if len(h.facts.Protected) != len(h.policy.Files.ProtectedPaths) {
		return denied(field, "facts are of %d paths, want of %d", len(h.facts.Protected), len(h.policy.Files.ProtectedPaths))
	}
	f, to := h.facts.Protected[i], path.Join("/", h.policy.Files.ProtectedPaths[i])
	if f.Mount < -1 || f.Mount >= len(h.spec.Mounts) {
		return denied(field, "nothing is known of where %q is", to)
	}
	base, source, readonly := h.below(f.Mount)
	if readonly {
		return h.uncovered(field, to, f.Mount)
	}
	if to == base {
		h.closeMount(field, f.Mount)
		return h.uncovered(field, to, f.Mount)
	}
	if err := h.protectable(field, to, base, source, f); err != nil {
		return err
	}
	for _, dir := range ancestors(base, to) {
		o := options{bind: true, nosuid: true, nodev: true}
		after[f.Mount+1] = appendMount(after[f.Mount+1], dir, source+strings.TrimPrefix(dir, base), o)
	}
	o := options{bind: true, recursive: true, ro: true, nosuid: true, nodev: true}
	after[f.Mount+1] = appendMount(after[f.Mount+1], to, f.Source, o)
	h.add("mounts", to, "a protected path, read-only")
	return h.uncovered(field, to, f.Mount)
}

// closeMount makes a mount read-only that is a protected path as a whole.
func (h *hardener) closeMount(field string, index int) {
	m := &h.spec.Mounts[index]
	h.tighten(fmt.Sprintf("mounts[%d].options", index), "rw", "ro", "named by "+field)
	m.Options = append(m.Options, "ro")
	if slices.Contains(m.Options, "rbind") {
		m.Options = append(m.Options, "rro")
	}
}

// below gives the destination and the source of the mount that a path is on.
func (h *hardener) below(index int) (base, source string, readonly bool) {
	if index < 0 {
		return "", h.facts.RootFS, h.spec.Root.Readonly
	}
	m := h.spec.Mounts[index]
	return m.Destination, m.Source, slices.Contains(m.Options, "ro")
}

func (h *hardener) protectable(field, to, base, source string, f ProtectedFacts) error {
	switch {
	case f.Kind == SourceMissing:
		return denied(field, "saw no %q in the container, want it there: a path that does not exist cannot be protected", to)
	case f.Kind == SourceSymlink:
		return denied(field, "saw a symlink on the way to %q, want none", to)
	case f.Kind != SourceFile && f.Kind != SourceDirectory:
		return denied(field, "saw a %s at %q, want a file or a directory", kindText(f.Kind), to)
	case !strings.HasPrefix(to, base+"/") || f.Source != source+strings.TrimPrefix(to, base):
		return denied(field, "nothing is known of where %q is", to)
	}
	return nil
}

// uncovered refuses a later mount of the bundle that would lie over the path,
// or in it, and could be written.
func (h *hardener) uncovered(field, to string, from int) error {
	for j := from + 1; j < len(h.spec.Mounts); j++ {
		m := h.spec.Mounts[j]
		overlaps := within(m.Destination, to) || within(to, m.Destination)
		if overlaps && !slices.Contains(m.Options, "ro") {
			return denied(field, "saw mounts[%d] at %q, which is writable and covers %q", j, m.Destination, to)
		}
	}
	return nil
}

// ancestors gives the directories between base and name, outermost first.
func ancestors(base, name string) []string {
	var out []string
	for dir := path.Dir(name); len(dir) > len(base) && dir != "/"; dir = path.Dir(dir) {
		out = slices.Insert(out, 0, dir)
	}
	return out
}

// appendMount leaves a directory that two protected paths share at one mount.
func appendMount(mounts []specs.Mount, at, source string, o options) []specs.Mount {
	m := specs.Mount{Destination: at, Type: "bind", Source: source, Options: o.list()}
	for _, have := range mounts {
		if have.Destination == m.Destination && slices.Equal(have.Options, m.Options) {
			return mounts
		}
	}
	return append(mounts, m)
}
