package hardening

import (
	"path"
	"slices"
	"strings"
)

// hostGroups are cgroups of systemd and of Kubernetes that hold the host's
// processes, or other containers'.
var hostGroups = strings.Fields(`
	/ /init.scope /system.slice /user.slice /machine.slice /kubepods /kubepods.slice /docker /sage
	/kubepods/burstable /kubepods/besteffort /system.slice/docker.service /system.slice/containerd.service`)

// cgroup wants a group of the container's own: limits, and later a packet guard,
// hold for everything that is in it. That it is new too is for the runtime to
// see, under the lock that it makes it under.
func (h *hardener) cgroup() error {
	const field = "linux.cgroupsPath"
	name := h.spec.Linux.CgroupsPath
	switch {
	case name == "":
		return nil
	case strings.ContainsRune(name, 0), slices.Contains(strings.Split(name, "/"), ".."):
		return denied(field, `saw %.80q, want a path without ".."`, name)
	case strings.Count(name, ":") == 2:
		return unit(field, strings.Split(name, ":"))
	case slices.Contains(hostGroups, path.Join("/", name)):
		return denied(field, "saw %.80q, which is the host's, want one below it", name)
	}
	return nil
}

// unit judges the form slice:prefix:name that the systemd driver takes.
func unit(field string, parts []string) error {
	slice, prefix, name := parts[0], parts[1], parts[2]
	if slice != "" && !strings.HasSuffix(slice, ".slice") || strings.ContainsRune(slice, '/') {
		return denied(field, "saw the slice %.80q, want a name that ends in .slice", slice)
	}
	// With such a name libcontainer makes no scope of it but uses it as it is.
	if name == "" || strings.ContainsRune(prefix+name, '/') || strings.HasSuffix(name, ".slice") {
		return denied(field, "saw the unit %.80q, want a name of the container's own", name)
	}
	return nil
}
