package hardening

import "github.com/opencontainers/runtime-spec/specs-go"

// Facts is what the host says about the things that a bundle names. Whoever
// calls [Apply] has looked, through descriptors that stay open until the
// container is made, so that a path cannot come to mean something else.
type Facts struct {
	Arch   string // as runtime.GOARCH
	Mounts []MountFacts
	// Namespaces are those that the bundle names by path, by type.
	Namespaces map[specs.LinuxNamespaceType]NamespaceFacts
	AppArmor   bool   // enabled on this host
	RootFS     string // absolute, resolved

	// UIDMappings and GIDMappings are those of the container's own user namespace,
	// for [ApplyProcess]; none where it has none. [Apply] takes the bundle's.
	UIDMappings []specs.LinuxIDMapping
	GIDMappings []specs.LinuxIDMapping
	// ReadPaths belong to the policy's read paths, index by index. Destination
	// is not needed: a read path is mounted where it is on the host.
	ReadPaths []MountFacts
	// Protected belong to the policy's protected paths, index by index.
	Protected []ProtectedFacts
	// Egress is for the modes in which the way out is a proxy.
	Egress EgressFacts
	// CPUs is one more than the highest number of a CPU that this host can have.
	CPUs int
	// NoSwapLimit says that there is no file to limit swap with, as on a kernel
	// that was built without swap.
	NoSwapLimit bool
	// CgroupV2 says that cgroup v2 is mounted alone, so that a container's limits
	// are files of it.
	CgroupV2 bool
	// HugePages are the sizes, as in names of files of the hugetlb controller
	// ("2MB"), of which this host has pages set aside, or gives some on demand.
	HugePages []string
	// SystemdCgroup says that systemd makes the container's cgroup whatever the
	// bundle's cgroupsPath is.
	SystemdCgroup bool
}

// ProtectedFacts say where a protected path of the policy leads. The path is
// taken from the root of the container: the last mount in the bundle that it
// is on is looked up first, then the rest of it is walked on the host below
// that mount's source (or below the root file system) without following any
// symlink.
type ProtectedFacts struct {
	Path string // as in the policy
	Kind SourceKind
	// Mount is the index of the bundle's mount that the path is on, -1 for the
	// root file system.
	Mount int
	// Source is where the path is on the host, and with a symlink on the way
	// Kind is SourceSymlink instead.
	Source string
}

// SourceKind is the type of the inode that a mount's source leads to.
type SourceKind string

// The kinds; SourceNone is a mount without a source on the host, as tmpfs.
const (
	SourceNone      SourceKind = ""
	SourceMissing   SourceKind = "missing"
	SourceFile      SourceKind = "file"
	SourceDirectory SourceKind = "directory"
	SourceSocket    SourceKind = "socket"
	SourceFIFO      SourceKind = "fifo"
	SourceDevice    SourceKind = "device"
	SourceSymlink   SourceKind = "symlink" // only where it could not be followed
)

// MountFacts belong to the mount of the same index in the bundle.
type MountFacts struct {
	Kind   SourceKind
	Source string // absolute path of the source with all symlinks resolved
	// Magic is f_type of statfs(2) of the source's file system, and Below those
	// of the file systems mounted below it, where the mount is recursive.
	Magic int64
	Below []SubmountFacts
	// Readonly, NoExec and NoSymFollow are what the source's own mount has: a bind
	// must not be looser, and one that names any flag loses those that it does not
	// name.
	Readonly, NoExec, NoSymFollow bool
	// Bytes is the size of the source's file system, 0 where it is not known.
	Bytes int64
	// Socket is the path of an AF_UNIX socket at or below the source, "" if none
	// was found; Unsearched says that the directory is too large to tell.
	Socket     string
	Unsearched bool
	// Destination is the mount's destination in the container with all symlinks
	// of the root file system resolved, as it will be mounted.
	Destination string
}

// SubmountFacts is one file system that a recursive bind would bring along.
type SubmountFacts struct {
	Path  string
	Magic int64
}

// NamespaceFacts says whose namespace a path leads to.
type NamespaceFacts struct {
	Host bool // the one of the runtime itself, or of pid 1
	// Kind is the type that the kernel gives for the path, as "net" or "ipc".
	Kind string
}
