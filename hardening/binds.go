package hardening

import (
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// engineFiles are the files that engines make for a container and mount into
// it. They are outside every limit, and no program needs to execute them.
var engineFiles = []string{
	"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/etc/group", "/etc/localtime",
	"/run/.containerenv", "/.dockerenv", "/dev/termination-log",
}

// initPlaces are where engines mount an init program of theirs.
var initPlaces = []string{"/sbin/docker-init", "/sbin/tini", "/dev/init", "/run/podman-init"}

func (h *hardener) bindMount(m *mount) error {
	if len(m.opts.data) > 0 {
		return invalid(m.field+".options", "saw %.40q, want none for a file system: a bind mount ignores them", m.opts.data[0])
	}
	if err := h.source(m); err != nil {
		return err
	}
	shm := sharedMemory(m)
	if shm && holds(h.spec, specs.IPCNamespace) == own {
		return h.freshMemory(m)
	}
	forInit, err := h.initBinary(m)
	if err != nil {
		return err
	}
	engines := m.facts.Kind == SourceFile && (slices.Contains(engineFiles, m.asked) || slices.Contains(engineFiles, m.facts.Destination))
	writable := !m.opts.ro && withinAny(m.facts.Source, h.policy.Files.WritePaths) &&
		// A termination message is the only thing written there by the container.
		(!engines || m.asked == "/dev/termination-log")
	m.opts.ro = !writable && (m.opts.ro || !shm)
	m.opts.noexec = m.opts.noexec || engines || m.facts.Destination == "/dev/shm"
	m.opts.nosuid, m.opts.nodev = true, true
	m.opts.ro, m.opts.noexec = m.opts.ro || m.facts.Readonly, m.opts.noexec || m.facts.NoExec
	if m.facts.NoSymFollow && !slices.Contains(m.opts.kept, "nosymfollow") {
		m.opts.kept = append(m.opts.kept, "nosymfollow")
	}
	if !forInit {
		if err := h.destination(m, writable); err != nil {
			return err
		}
	}
	hosts := withinAny(m.facts.Source, h.policy.Files.ReadPaths) && !writable
	if m.facts.Kind == SourceDirectory && !hosts && h.outside == "" {
		h.outside = m.facts.Source + " of the host is mounted, where a socket may be made from outside"
	}
	h.tighten(m.field+".source", m.Source, m.facts.Source, "where the symlinks of the host lead")
	m.Source = m.facts.Source
	h.set(m)
	return nil
}

// sharedMemory tells whether a mount is the /dev/shm that an engine keeps for a
// container or a pod: containerd, CRI-O and Podman, and Docker.
func sharedMemory(m *mount) bool {
	const tmpfsMagic = 0x01021994
	dir, name := path.Split(m.facts.Source)
	parent := path.Base(dir)
	above := path.Base(path.Dir(path.Clean(dir)))
	return name == "shm" && m.facts.Destination == "/dev/shm" && m.facts.Kind == SourceDirectory && m.facts.Magic == tmpfsMagic &&
		(above == "sandboxes" || parent == "userdata" || parent == "mounts")
}

// freshMemory gives a container whose ipc namespace nobody shares shared memory
// that nobody shares either; the engine's would be a way out by AF_UNIX.
func (h *hardener) freshMemory(m *mount) error {
	size := int64(tmpfsSize)
	if m.facts.Bytes > 0 {
		size = min(m.facts.Bytes, maxSize)
	}
	h.tighten(m.field+".type", "bind", "tmpfs", "shared memory of the container's own")
	*m.Mount = specs.Mount{Destination: m.Destination, Type: "tmpfs", Source: "shm", Options: m.Options}
	m.opts = options{ro: m.opts.ro, data: []string{"mode=1777", sizeOption(size)}}
	return h.freshMount(m)
}

// initBinary tells whether the mount is an engine's init program, which the
// host's file must list: it becomes the first process of the container.
func (h *hardener) initBinary(m *mount) (bool, error) {
	listed := slices.Contains(h.policy.Files.InitBinaries, m.facts.Source)
	place := slices.Contains(initPlaces, m.facts.Destination)
	if place && !listed {
		return false, denied(m.field, "saw %q as the container's init, want a program that init_binaries in the host's file lists", m.facts.Source)
	}
	return place && m.facts.Kind == SourceFile, nil
}

// source judges the inode that the runtime has pinned.
func (h *hardener) source(m *mount) error {
	field, f := m.field+".source", m.facts
	switch f.Kind {
	case SourceFile, SourceDirectory:
	case SourceMissing:
		return denied(field, "saw %q, which does not exist, want a file or a directory", m.Source)
	case SourceNone, SourceSocket, SourceFIFO, SourceDevice, SourceSymlink:
		return denied(field, "saw a %s at %q, want a file or a directory", kindText(f.Kind), m.Source)
	default:
		return denied(field, "nothing is known of %q", m.Source)
	}
	if !path.IsAbs(f.Source) || path.Clean(f.Source) != f.Source {
		return denied(field, "nothing is known of where %q leads to", m.Source)
	}
	if err := kernelOnly(field, f, m.opts.recursive); err != nil {
		return err
	}
	if err := h.contents(field, f); err != nil {
		return err
	}
	return h.closedTo(field, f.Source)
}

func kindText(k SourceKind) string {
	if k == SourceNone {
		return "mount without a source"
	}
	return string(k)
}

// kernelOnly refuses the kernel's own file systems wherever they are mounted.
func kernelOnly(field string, f MountFacts, recursive bool) error {
	if name := KernelFS(f.Magic); name != "" {
		return denied(field, "saw %q, which is on %s of the host, want no file system of the kernel", f.Source, name)
	}
	if !recursive {
		return nil
	}
	for _, below := range f.Below {
		if name := KernelFS(below.Magic); name != "" {
			return denied(field, "saw %q, below which %q is %s of the host, want no file system of the kernel", f.Source, below.Path, name)
		}
	}
	return nil
}

// contents refuses a way to talk to a program of the host. Where the host lists
// the directory as writable, one that is too large to be searched is let by:
// AF_UNIX is closed to a container that has such a mount.
func (h *hardener) contents(field string, f MountFacts) error {
	switch {
	case f.Socket != "":
		return denied(field, "saw the socket %q in it, want none: it leads to a program outside the container", f.Socket)
	case f.Unsearched && !withinAny(f.Source, h.policy.Files.WritePaths):
		return denied(field, "saw %q, which is too large to be searched for sockets: mount a part of it, or add it to write_paths in the host's file", f.Source)
	}
	return nil
}

// closedTo refuses the places where the host is governed from. What the host's
// file lists is open but for sage's own.
func (h *hardener) closedTo(field, source string) error {
	listed := withinAny(source, h.policy.Files.WritePaths) || withinAny(source, h.policy.Files.ReadPaths)
	for _, place := range closed {
		overlaps := within(source, place.dir) || within(place.dir, source)
		if !overlaps || listed && !place.always || place.exempts(source) {
			continue
		}
		return denied(field, "saw %q, want nothing of %s, nor a directory that it is in: it holds %s", source, place.dir, place.holds)
	}
	return nil
}

// within tells whether name is dir or lies below it; both are clean.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

func withinAny(name string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(name, dir) })
}
