package runtime

import (
	"fmt"

	"github.com/opencontainers/runc/libcontainer/capabilities"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runc/libcontainer/seccomp"
	"github.com/opencontainers/runc/libcontainer/specconv"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/runtime-spec/specs-go/features"
)

// Annotations of the features document that are sage's own. Those under
// org.opencontainers.runc say what this binary does like runc; its version and
// commit are not among them, as this is not runc.
const (
	annotationVersion    = "com.github.sage-sandbox.sage.version"
	annotationCommit     = "com.github.sage-sandbox.sage.commit"
	annotationCheckpoint = "org.opencontainers.runc.checkpoint.enabled"
	annotationSeccomp    = "io.github.seccomp.libseccomp.version"
)

// Features says what this binary can do, on any host, in the form of the
// runtime specification's features document.
func Features(version, commit string) *features.Features {
	f := &features.Features{
		OCIVersionMin: "1.0.0",
		OCIVersionMax: specs.Version,
		Hooks:         configs.KnownHookNames(),
		MountOptions:  specconv.KnownMountOptions(),
		Linux:         linuxFeatures(),
		Annotations: map[string]string{
			annotationVersion:    version,
			annotationCommit:     commit,
			annotationCheckpoint: "true",
		},
		PotentiallyUnsafeConfigAnnotations: []string{"bundle", "org.systemd.property.", "org.criu.config"},
	}
	if seccomp.Enabled {
		f.Linux.Seccomp = seccompFeatures()
		f.Annotations[annotationSeccomp] = SeccompVersion()
	}
	return f
}

// SeccompVersion is the version of the linked libseccomp, "" without one.
func SeccompVersion() string {
	major, minor, micro := seccomp.Version()
	if major+minor+micro == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", major, minor, micro)
}

func linuxFeatures() *features.Linux {
	yes := true
	return &features.Linux{
		Namespaces:      specconv.KnownNamespaces(),
		Capabilities:    capabilities.KnownCapabilities(),
		Cgroup:          &features.Cgroup{V1: &yes, V2: &yes, Systemd: &yes, SystemdUser: &yes, Rdma: &yes},
		Apparmor:        &features.Apparmor{Enabled: &yes},
		Selinux:         &features.Selinux{Enabled: &yes},
		IntelRdt:        &features.IntelRdt{Enabled: &yes, Schemata: &yes, Monitoring: &yes},
		MountExtensions: &features.MountExtensions{IDMap: &features.IDMap{Enabled: &yes}},
		NetDevices:      &features.NetDevices{Enabled: &yes},
		MemoryPolicy: &features.MemoryPolicy{
			Modes: specconv.KnownMemoryPolicyModes(),
			Flags: specconv.KnownMemoryPolicyFlags(),
		},
	}
}

func seccompFeatures() *features.Seccomp {
	yes := true
	return &features.Seccomp{
		Enabled:        &yes,
		Actions:        seccomp.KnownActions(),
		Operators:      seccomp.KnownOperators(),
		Archs:          seccomp.KnownArchs(),
		KnownFlags:     seccomp.KnownFlags(),
		SupportedFlags: seccomp.SupportedFlags(),
	}
}
