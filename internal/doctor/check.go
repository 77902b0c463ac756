package doctor

import (
	"context"
	"fmt"
)

// Level says what of sage needs a thing that [Check] looks for.
type Level string

// The levels; nothing at all works under a policy without the first.
const (
	LevelPolicy      Level = "policy"
	LevelHardLimits  Level = "hard limits"
	LevelEgress      Level = "egress"
	LevelInformation Level = "information" // nothing needs it
)

// Finding is what one probe found on this host.
type Finding struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Level Level  `json:"needed_for"`
	Seen  string `json:"seen"`
	Do    string `json:"do,omitempty"` // what to do about it, where it is not ok
}

// Host is where sage is to work, as its configuration has it.
type Host struct {
	CgroupRoot string // below which the containers' cgroups will be
	QuotaMount string // "" if none is configured
}

// probe tries one thing by doing it, and leaves nothing behind.
type probe struct {
	name  string
	level Level
	try   func(Host) (seen string, err error)
	do    string
}

const (
	doKernel     = "boot Linux 5.14 or later with this feature built in"
	doController = "mount cgroup v2 alone (systemd.unified_cgroup_hierarchy=1) and delegate the controller to the cgroup root of sage"
)

// probes are in the order in which they are reported.
var probes = []probe{
	{"kernel", LevelPolicy, kernelVersion, "boot Linux 5.14 or later"},
	{"architecture", LevelPolicy, architecture, "run sage on amd64 or arm64"},
	{"openat2", LevelPolicy, openat2, doKernel},
	{"mount_setattr", LevelPolicy, mountSetattr, doKernel + ", and run as root"},
	{"pidfd", LevelPolicy, pidfd, doKernel},
	{"seccomp", LevelPolicy, seccompFilter, doKernel + " (CONFIG_SECCOMP_FILTER)"},
	{"seccomp read-back", LevelPolicy, seccompReadBack, doKernel + " (CONFIG_CHECKPOINT_RESTORE), run as root and under no seccomp filter, and set kernel.yama.ptrace_scope below 3"},
	{"posture", LevelPolicy, posture, doKernel + ", and mount /proc without subset and hidepid"},
	{"namespaces", LevelPolicy, namespaces, "run as root, on a kernel with all namespaces built in"},

	{"cgroup version", LevelHardLimits, cgroupVersion, "mount cgroup v2 alone (systemd.unified_cgroup_hierarchy=1); until then profiles need require_hard_limits: false"},
	{controllerCPU, LevelHardLimits, controller("cpu"), doController},
	{controllerMemory, LevelHardLimits, controller("memory"), doController},
	{controllerPIDs, LevelHardLimits, controller("pids"), doController},
	{swapLimit, LevelHardLimits, swap, "enable the memory controller below the cgroup root, on a kernel with CONFIG_SWAP and without swapaccount=0"},
	{"clone into cgroup", LevelHardLimits, cloneIntoCgroup, doKernel + ", with cgroup v2 mounted writable"},
	{"cgroup.kill", LevelHardLimits, cgroupKill, doKernel + ", with cgroup v2 mounted writable"},
	{quotaMount, LevelHardLimits, quota, "set linux_quota_mount to a directory on XFS mounted with prjquota, on a kernel with CONFIG_XFS_QUOTA"},

	{"cgroup BPF", LevelEgress, cgroupBPF, doKernel + " (CONFIG_CGROUP_BPF), with cgroup v2 mounted writable, and run as root"},

	{"AppArmor", LevelInformation, appArmor, ""},
	{"SELinux", LevelInformation, selinux, ""},
	{"user namespaces", LevelInformation, userNamespaces, ""},
	{"Yama", LevelInformation, yama, ""},
}

// Check tries everything that sage needs on this host, and always reports on
// everything, in the same order. A probe that ctx left no time for is not ok.
func Check(ctx context.Context, host Host) []Finding {
	findings := make([]Finding, 0, len(probes))
	for _, p := range probes {
		findings = append(findings, p.run(ctx, host))
	}
	return findings
}

// run tells an error in a finding instead of giving up: who mends a host wants
// to see everything that is amiss.
func (p probe) run(ctx context.Context, host Host) Finding {
	if err := ctx.Err(); err != nil {
		return p.finding("", fmt.Errorf("not tried: %w", err))
	}
	return p.finding(p.try(host))
}

func (p probe) finding(seen string, err error) Finding {
	f := Finding{Name: p.name, Level: p.level, Seen: seen, OK: err == nil}
	if err != nil {
		f.Seen, f.Do = err.Error(), p.do
	}
	return f
}
