package runtime

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/fs2"
	"github.com/opencontainers/cgroups/systemd"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/quota/readback"
	"github.com/sage-sandbox/sage/spec"
)

// isPause says whether s is the container of a pod that holds its namespaces. It
// is not refused for want of a disk quota, as it is given nothing to write on a
// disk. Of the other limits it is not let off: any bundle can carry the annotation.
func isPause(s *specs.Spec) bool { return spec.IsPause(s) }

// checkHardLimits refuses, at admission, a policy whose hard limits this host
// cannot hold for s (S-010). Nothing has been changed yet. A host prepared for
// one half of what metering takes is refused whatever the policy requires: what
// its administrator believes to be limited would run without (S-144, G-18).
func (l *Launch) checkHardLimits(host *spec.Host, p spec.Policy, s *specs.Spec) error {
	prepared := host.QuotaMount != "" || host.CgroupRoot != ""
	if !p.Resources.RequireHardLimits && !prepared {
		return nil
	}
	missing := doctor.HardLimits(doctor.Look(doctor.Host{CgroupRoot: l.cgroupToBe(s).in(), QuotaMount: host.QuotaMount}))
	if isPause(s) {
		missing = slices.DeleteFunc(missing, func(m doctor.MissingLimit) bool { return m.Limit == doctor.LimitDisk })
	}
	names, why := doctor.Missing(missing)
	if names == "" {
		return nil
	}
	fix := "or set resources.require_hard_limits to false in " + l.Host.Config
	if !p.Resources.RequireHardLimits {
		fix = "or take linux_quota_mount and linux_cgroup_root out of " + l.Host.Config + ": with one of them alone nothing is metered"
	}
	return errcode.Wrap(errcode.ResourceLimitsUnsupported, "admit under profile "+p.Profile,
		fmt.Errorf("missing_limits: %s; side_effect_state: not_applied; %s; %s", names, why, fix))
}

// belowRoot is a bundle whose cgroup is to be below the host's cgroup root.
func belowRoot(host *spec.Host) *specs.Spec {
	path := filepath.Join("/", strings.TrimPrefix(host.CgroupRoot, fs2.UnifiedMountpoint), "check")
	return &specs.Spec{Linux: &specs.Linux{CgroupsPath: path}}
}

// cgroupPlace is where libcontainer will make a cgroup, if cgroup v2 is all
// there is.
type cgroupPlace struct {
	dir     string
	systemd bool
}

// in is the directory by whose controllers it can be told which ones the cgroup
// will have: the one that it is made in. systemd enables them all the way down
// from the root.
func (p cgroupPlace) in() string {
	if p.systemd {
		return fs2.UnifiedMountpoint
	}
	return filepath.Dir(p.dir)
}

func (l *Launch) cgroupToBe(s *specs.Spec) cgroupPlace {
	path := ""
	if s.Linux != nil {
		path = s.Linux.CgroupsPath
	}
	if l.Host.SystemdCgroup || spec.IsSystemdPath(path) {
		slice, _, _ := strings.Cut(path, ":")
		above, err := systemd.ExpandSlice(cmp.Or(slice, "system.slice"))
		if err != nil {
			above = "/" // and libcontainer says what is wrong with it
		}
		return cgroupPlace{filepath.Join(fs2.UnifiedMountpoint, above, l.ID+".scope"), true}
	}
	if !filepath.IsAbs(path) {
		// Beside the caller's own cgroup, as libcontainer has it.
		own, _ := cgroups.ParseCgroupFile("/proc/self/cgroup")
		path = filepath.Join("/", filepath.Dir(own[""]), cmp.Or(path, l.ID))
	}
	return cgroupPlace{filepath.Join(fs2.UnifiedMountpoint, filepath.Join("/", path)), false}
}

// limitsAbove lists what of a bundle's limits a cgroup above its own cuts short.
func (l *Launch) limitsAbove(s *specs.Spec) ([]readback.Lower, error) {
	if !cgroups.IsCgroup2UnifiedMode() {
		return nil, nil
	}
	g := limited{dir: l.cgroupToBe(s).dir}
	return g.above(expected(s.Linux.Resources))
}
