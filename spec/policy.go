package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Policy is what sage enforces for one container: every value is settled, none
// is left to a default. [Resolve] makes it; nothing changes it after create.
type Policy struct {
	Profile string `json:"profile"`
	// Compat turns all of sage's policy off: the container is run as runc would.
	// A host may name that profile, a bundle never.
	Compat    bool      `json:"compat,omitempty"`
	Resources Resources `json:"resources"`
	Network   Network   `json:"network"`
	Process   Process   `json:"process"`
	Files     Files     `json:"files"`
	// TimeoutSeconds ends the container that long after its start; 0 is never.
	TimeoutSeconds int64 `json:"timeout_seconds"`
}

// Resources are the hard limits of one container, all of them for the whole
// tree of its processes (S-003 to S-007).
type Resources struct {
	CPUQuota          int64 `json:"cpu_quota_us"` // µs of CPU time per 100 ms; 1000 is one per cent of one core
	MemoryBytes       int64 `json:"memory_bytes"` // without swap, of which there is none
	DiskBytes         int64 `json:"disk_bytes"`
	MaxProcesses      int64 `json:"max_processes"` // threads count (S-006)
	RequireHardLimits bool  `json:"require_hard_limits"`
}

// CPUPeriod is the period of [Resources.CPUQuota], in µs.
const CPUPeriod = 100_000

// NetworkMode is where a container's traffic may go.
type NetworkMode string

// The modes from strictest to loosest, which is the order of a ceiling.
const (
	NetworkNone         NetworkMode = "none"
	NetworkAllowlist    NetworkMode = "allowlist"
	NetworkProxy        NetworkMode = "proxy"
	NetworkUnrestricted NetworkMode = "unrestricted"
)

// Listen is from where others may connect to a container's programs.
type Listen string

// The values from strictest to loosest.
const (
	ListenDeny     Listen = "deny"
	ListenLoopback Listen = "loopback"
	ListenAny      Listen = "any"
)

// Dial is from where a container's proxy connects to servers.
type Dial string

// The places. Auto is the container's own namespace where the engine has given
// it a network, so that the engine's rules go on holding, and else the host.
const (
	DialAuto   Dial = "auto"
	DialEngine Dial = "engine"
	DialHost   Dial = "host"
)

// Network is the policy for everything that leaves or enters by a socket.
type Network struct {
	Mode                NetworkMode `json:"mode"`
	AllowedHosts        []string    `json:"allowed_hosts"`   // rules of package egress, sorted
	DeniedHosts         []string    `json:"denied_hosts"`    // the same; they win
	AllowedPorts        []uint16    `json:"allowed_ports"`   // sorted
	AllowedSchemes      []string    `json:"allowed_schemes"` // sorted
	ProxyURL            string      `json:"proxy_url,omitempty"`
	DenyPrivateNetworks bool        `json:"deny_private_networks"`
	MaxWallTimeSeconds  int64       `json:"max_wall_time_seconds"`  // of one connection
	MaxRequestBodyBytes int64       `json:"max_request_body_bytes"` // sent over one connection
	MaxResponseBytes    int64       `json:"max_response_bytes"`     // received over one connection
	MaxConnections      int64       `json:"max_connections"`        // to the proxy at once
	MaxActive           int64       `json:"max_active"`             // of these, with a server
	MaxTotalBytes       int64       `json:"max_total_bytes"`        // of all connections, both ways; 0 is no limit
	// Transparent is the path for programs that know of no proxy.
	Transparent bool `json:"transparent"`
	// Dial is from which network namespace the proxy connects.
	Dial Dial `json:"dial,omitempty"`
	// ECH is what becomes of TLS clients that encrypt the name (G-12).
	ECH string `json:"ech,omitempty"`
	// Nameservers, Reachable and JavaToolOptions are the host's own; see [Egress].
	Nameservers     []string `json:"nameservers"`
	Reachable       []string `json:"reachable"`
	JavaToolOptions bool     `json:"java_tool_options"`
	Listen          Listen   `json:"listen"`
	// UnixSockets lets the container's processes talk to each other by AF_UNIX,
	// where nothing outside shares their network namespace or a directory.
	UnixSockets bool `json:"unix_sockets"`
	// HostNetwork lets a bundle do without a network namespace of its own.
	HostNetwork bool `json:"host_network"`
}

// Process is the policy for the init of a container and every exec alike.
type Process struct {
	// Capabilities are the most that any set may hold, by CAP_ name, sorted.
	Capabilities     []string `json:"capabilities"`
	AllowPtrace      bool     `json:"allow_ptrace"`
	AllowNoRandomize bool     `json:"allow_no_randomize"`
	RequireNonRoot   bool     `json:"require_non_root"`
	// ExecutionUID and ExecutionGID replace root, as the bundle's other users
	// stay; nil replaces nothing (S-112, S-146).
	ExecutionUID *uint32 `json:"execution_uid,omitempty"`
	ExecutionGID *uint32 `json:"execution_gid,omitempty"`
	MaxOpenFiles uint64  `json:"max_open_files"` // RLIMIT_NOFILE (S-023)
	MaxFileBytes uint64  `json:"max_file_bytes"` // RLIMIT_FSIZE (S-022); 0 is no limit
	// MaxOutputBytes ends the container once its first process has written more
	// to its standard output and error together; 0 is no limit. An exec's output
	// does not count (S-166, S-167).
	MaxOutputBytes int64 `json:"max_output_bytes"`
	// CommandPath is PATH in the container, "" for the bundle's own (S-030).
	CommandPath string `json:"command_path,omitempty"`
	// AllowedEnv are the variables that may be set; nil is any and empty is none
	// (S-038), so that the two must differ in JSON too.
	AllowedEnv []string `json:"allowed_env_names,omitzero"`
	// ForceEnv win over the bundle and the exec, as NAME=value, sorted (S-040).
	ForceEnv []string `json:"force_env,omitempty"`
}

// Files is the policy for what a container sees and what it may change.
type Files struct {
	ReadonlyRoot bool     `json:"readonly_root"`
	ReadonlyProc bool     `json:"readonly_proc"` // all of /proc, not just what steers the kernel (S-108, G-09)
	ReadPaths    []string `json:"read_paths"`    // host directories mounted read-only at the same path (S-035)
	// WritePaths are the host directories below which a bundle may mount
	// writable; every other source is mounted read-only.
	WritePaths     []string `json:"write_paths"`
	ProtectedPaths []string `json:"protected_paths"` // in the container, read-only below writable mounts (S-118)
	Devices        []Device `json:"devices"`         // that a bundle may pass beyond the default set
	// SharedNamespaces says whether a bundle may join namespaces by path:
	// network, ipc, uts or pid. Those of the host are refused all the same.
	SharedNamespaces []string `json:"shared_namespaces"`
	RefusePrivileged bool     `json:"refuse_privileged"`
	// Hooks and InitBinaries are paths on the host that a bundle may run as a
	// hook, or mount as the container's init (docker run --init).
	Hooks           []string `json:"hooks"`
	InitBinaries    []string `json:"init_binaries"`
	RequireAppArmor bool     `json:"require_apparmor"`
}

// Device is a device node that a host lists: a bundle must ask for exactly it.
type Device struct {
	Path  string `json:"path"`
	Type  string `json:"type"` // "c" or "b"
	Major int64  `json:"major"`
	Minor int64  `json:"minor"`
}

// Reason says why one value of a policy is what it is.
type Reason struct {
	Field  string `json:"field"`  // dotted, as in the configuration: "resources.memory_mb"
	Value  string `json:"value"`  // as a person would write it
	Source string `json:"source"` // "profile sage: default", "annotation", "linux.resources.memory.limit", ...
	// Ceiling is the most that a bundle could have had, "" where there is none.
	Ceiling string `json:"ceiling,omitempty"`
}

// Resolution is a policy with the reason for every value of it.
type Resolution struct {
	Policy  Policy   `json:"policy"`
	Reasons []Reason `json:"reasons"`
}

// Digest is the SHA-256 of the policy's JSON, in hex: two containers with one
// digest are under the same policy (S-020).
func (p Policy) Digest() string {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // no field can fail to marshal: strings, integers and booleans
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
