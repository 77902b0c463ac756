package hardening

import "strings"

// kernelFS are the file systems that the kernel speaks through, by f_type of
// statfs(2), from linux/magic.h. A device file system is told from any other
// tmpfs by nothing, so that one is kept out by its path.
var kernelFS = map[uint32]string{
	0x9fa0: "proc", 0x62656572: "sysfs", 0x27e0eb: "cgroup", 0x63677270: "cgroup2", 0x64626720: "debugfs",
	0x74726163: "tracefs", 0x73636673: "securityfs", 0xcafe4a11: "bpf", 0x1cd1: "devpts", 0xf97cff8c: "selinuxfs",
	0x43415d53: "smackfs", 0x5a3c69f0: "apparmorfs", 0x62656570: "configfs", 0xde5e81e4: "efivarfs",
	0x6165676c: "pstore", 0x6e736673: "nsfs", 0x50494446: "pidfs", 0x19800202: "mqueue", 0x958458f6: "hugetlbfs",
	0x42494e4d: "binfmt_misc", 0x65735543: "fusectl", 0x07655821: "resctrl", 0x6c6f6f70: "binder",
	0x444d4142: "dmabuf", 0x534f434b: "sockfs", 0x09041934: "anon_inodefs", 0x6e667364: "nfsd",
	0x67596969: "rpc_pipefs", 0xabba1974: "xenfs", 0xa647361d: "functionfs", 0x9fa2: "usbdevfs",
	0x9fa1: "openpromfs", 0x454d444d: "devmem",
}

// KernelFS names the file system of the kernel that has this f_type of
// statfs(2), "" for any other one.
func KernelFS(magic int64) string { return kernelFS[uint32(magic)] }

// place is a directory of the host that no bundle may mount, nor anything below
// it or above it.
type place struct {
	dir    string
	holds  string
	always bool // even if the host's file lists it
	// but are what engines mount into every container by themselves, relative to
	// dir; "*" is one name and "**" at the end any number of them.
	but []string
}

// Containers of one pod share what containerd and CRI-O keep for it below /run;
// k3s has the same tree one level down.
var runFiles = []string{
	"containerd/io.containerd.*/sandboxes/*/shm",
	"k3s/containerd/io.containerd.*/sandboxes/*/shm",
	"containers/storage/*/*/userdata/hosts",
	"containers/storage/*/*/userdata/hostname",
	"containers/storage/*/*/userdata/resolv.conf",
	"containers/storage/*/*/userdata/.containerenv",
	"containers/storage/*/*/userdata/passwd",
	"containers/storage/*/*/userdata/group",
	"containers/storage/*/*/userdata/shm",
	"containers/storage/*/*/userdata/run/secrets/**",
}

var criFiles = []string{
	"io.containerd.*/sandboxes/*/hosts",
	"io.containerd.*/sandboxes/*/hostname",
	"io.containerd.*/sandboxes/*/resolv.conf",
	"io.containerd.*/containers/*/volumes/**",
}

var closed = []place{
	{dir: "/run/sage", holds: "sage's own state", always: true},
	{dir: "/etc/sage", holds: "sage's own configuration", always: true},
	{dir: "/run", holds: "sockets and state of the host's services", but: runFiles},
	{dir: "/var/run", holds: "sockets and state of the host's services", but: runFiles},
	{dir: "/dev", holds: "the host's devices"},
	{dir: "/proc", holds: "the host's processes"},
	{dir: "/sys", holds: "the host's kernel"},
	{dir: "/boot", holds: "the host's kernel"},
	{dir: "/var/lib/docker", holds: "an engine's state", but: []string{
		"volumes/*/_data/**", "containers/*/hosts", "containers/*/hostname", "containers/*/resolv.conf",
		"containers/*/mounts/**",
	}},
	{dir: "/var/lib/containerd", holds: "an engine's state", but: criFiles},
	{dir: "/var/lib/rancher", holds: "an engine's state", but: under("k3s/agent/containerd/", criFiles)},
	{dir: "/var/lib/containers", holds: "an engine's state", but: append(
		[]string{"storage/volumes/*/_data/**"}, runFilesOf("containers/")...)},
	{dir: "/var/lib/nerdctl", holds: "an engine's state", but: []string{
		"*/volumes/*/*/_data/**", "*/etchosts/*/*/hosts", "*/containers/*/*/hostname", "*/containers/*/*/resolv.conf",
		"*/containers/*/*/hosts",
	}},
	{dir: "/var/lib/kubelet", holds: "an engine's state", but: []string{
		"pods/*/volumes/**", "pods/*/volume-subpaths/**", "pods/*/etc-hosts", "pods/*/containers/*/*",
	}},
	{dir: "/var/lib/crio", holds: "an engine's state"},
	{dir: "/var/lib/buildkit", holds: "an engine's state"},
	{dir: "/etc/docker", holds: "an engine's configuration"},
	{dir: "/etc/containerd", holds: "an engine's configuration"},
	{dir: "/etc/containers", holds: "an engine's configuration"},
	{dir: "/etc/crio", holds: "an engine's configuration"},
	{dir: "/etc/cni", holds: "an engine's configuration"},
	{dir: "/etc/kubernetes", holds: "keys of the host"},
	{dir: "/etc/ssh", holds: "keys of the host"},
	{dir: "/etc/shadow", holds: "passwords of the host"},
	{dir: "/etc/gshadow", holds: "passwords of the host"},
	{dir: "/etc/sudoers", holds: "rights on the host"},
	{dir: "/etc/sudoers.d", holds: "rights on the host"},
}

func under(prefix string, patterns []string) []string {
	var out []string
	for _, pattern := range patterns {
		out = append(out, prefix+pattern)
	}
	return out
}

// runFilesOf gives those of [runFiles] that start with prefix, without it:
// containers/storage keeps the same tree in /var/lib.
func runFilesOf(prefix string) []string {
	var out []string
	for _, pattern := range runFiles {
		if rest, ok := strings.CutPrefix(pattern, prefix); ok {
			out = append(out, rest)
		}
	}
	return out
}

func (p place) exempts(name string) bool {
	rest, ok := strings.CutPrefix(name, p.dir+"/")
	if !ok {
		return false
	}
	for _, pattern := range p.but {
		if matches(strings.Split(pattern, "/"), strings.Split(rest, "/")) {
			return true
		}
	}
	return false
}

// matches compares name by name; "**" also stands for nothing at all.
func matches(pattern, names []string) bool {
	for i, want := range pattern {
		if want == "**" {
			return true
		}
		if i >= len(names) || !matchesName(want, names[i]) {
			return false
		}
	}
	return len(pattern) == len(names)
}

// matchesName knows one "*", which is for any text.
func matchesName(pattern, name string) bool {
	before, after, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == name
	}
	return len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}
