package spec

// Posture is what the kernel is to show for one process of a container, or
// what it shows: the two are compared field by field. A field that the kernel
// cannot report is an error of the one who collects it, never left out.
type Posture struct {
	NoNewPrivs bool `json:"no_new_privs"`
	// Seccomp is the mode of /proc/PID/status, 2 for filters, and Filters how
	// many of them are stacked.
	Seccomp int `json:"seccomp"`
	Filters int `json:"seccomp_filters"`
	// Layer2 is the SHA-256 of sage's own filter as read back from the kernel:
	// of the filters stacked, the one that was loaded first.
	Layer2 string `json:"layer2_sha256"`
	// Capability sets as in /proc/PID/status, by CAP_ name, sorted.
	Bounding    []string `json:"cap_bounding"`
	Effective   []string `json:"cap_effective"`
	Permitted   []string `json:"cap_permitted"`
	Inheritable []string `json:"cap_inheritable"`
	Ambient     []string `json:"cap_ambient"`
	UID         uint32   `json:"uid"` // real, effective, saved and file system: all four alike
	GID         uint32   `json:"gid"`
	Groups      []uint32 `json:"groups"` // supplementary, sorted
	// OwnNamespaces are the types in which the process shares no namespace with
	// the host: mnt, pid, net, ipc, uts, cgroup, user; sorted.
	OwnNamespaces []string          `json:"own_namespaces"`
	Rlimits       map[string]Rlimit `json:"rlimits"`       // by RLIMIT_ name, those that the policy sets
	OOMScoreAdj   int               `json:"oom_score_adj"` // at least; see proc_pid_oom_score_adj(5)
	AppArmor      string            `json:"apparmor,omitempty"`
}

// Rlimit is one resource limit of a process, in the unit of getrlimit(2).
type Rlimit struct {
	Soft uint64 `json:"soft"`
	Hard uint64 `json:"hard"`
}
