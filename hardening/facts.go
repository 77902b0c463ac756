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
	// AppArmor and SELinux say whether this host has them enabled.
	AppArmor bool
	SELinux  bool
	// CgroupExists tells that the bundle's cgroupsPath is there already.
	CgroupExists bool
	// PID, and the sizes below, are for messages only.
	RootFS string // absolute, resolved
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
