package spec

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// Host is what the host's configuration says: the ceiling of every container on
// it. [ParseHost] and [BuiltinHost] make it; nothing changes it afterwards.
type Host struct {
	DefaultProfile string
	// AllowedProfiles are those that a bundle may choose, sorted. The default one
	// may be named besides, since it is what comes of naming none.
	AllowedProfiles []string
	// AllowedAnnotations are keys without the prefix sage.sandbox., or "*".
	AllowedAnnotations []string
	Profiles           map[string]*Profile
	QuotaMount         string // linux_quota_mount
	CgroupRoot         string // linux_cgroup_root
	ExecutionUID       *uint32
	ExecutionGID       *uint32
	ProjectIDs         IDRange
	AuditDir           string // "" for no audit files
	ReadPaths          []string
	CommandPath        string
	WritePaths         []string
	Devices            []Device
	SharedNamespaces   []string
	Hooks              []string
	InitBinaries       []string
	Egress             Egress
}

// IDRange is a range of XFS project ids, both ends in it; zero is none.
type IDRange struct{ First, Last uint32 }

// Profile is a named policy with the room that a bundle has within it. What it
// extends is in it already.
type Profile struct {
	Name        string
	Label       string
	Description string
	// Compat turns all of sage's policy off.
	Compat bool
	// defaults are by setting's key and limits by its key below limits; a key
	// that nobody has set is in neither.
	defaults map[string]value
	limits   map[string]value
}

// ProfileNames are the profiles that the host has, sorted.
func (h *Host) ProfileNames() []string { return slices.Sorted(maps.Keys(h.Profiles)) }

// With returns the host with another default profile, for an operator who asks
// what it would do: that one may name any profile, unlike a bundle.
func (h *Host) With(profile string) (*Host, error) {
	if h.Profiles[profile] == nil {
		return nil, errcode.Wrap(errcode.ProfileUnavailable, "choose a profile",
			fmt.Errorf("saw %.64q, want one of %s", profile, listText(h.ProfileNames())))
	}
	other := *h
	other.DefaultProfile = profile
	return &other, nil
}

// Paths are the files and directories of the host that decide over containers,
// by the key that names them: none may lie where a container can write (S-045).
func (h *Host) Paths() map[string][]string {
	paths := map[string][]string{"hooks": h.Hooks, "init_binaries": h.InitBinaries}
	for key, path := range map[string]string{"audit_dir": h.AuditDir, "linux_cgroup_root": h.CgroupRoot} {
		if path != "" {
			paths[key] = []string{path}
		}
	}
	return paths
}

// CheckTrusted refuses a path that lies below one of the write paths, where a
// container could put something else in its place. What names it in the error:
// "sage-runtime", "the configuration". It compares text: whoever calls it
// resolves symlinks of both sides first.
func (h *Host) CheckTrusted(what, path string) error {
	for _, dir := range h.WritePaths {
		if below(path, dir) {
			return errcode.Wrap(errcode.ConfigInvalid, "check write_paths",
				fmt.Errorf("%s: saw %s, which lies below %s, where containers may write; want it elsewhere", what, path, dir))
		}
	}
	return nil
}

// checkPaths does so for every path that the configuration itself names.
func (h *Host) checkPaths() error {
	paths := h.Paths()
	for _, key := range slices.Sorted(maps.Keys(paths)) {
		for _, path := range paths[key] {
			if err := h.CheckTrusted(key, path); err != nil {
				return err
			}
		}
	}
	return nil
}
