package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sage-sandbox/sage/internal/errcode"
)

// MaxHostBytes is the largest configuration file that is read.
const MaxHostBytes = 1 << 20

// ParseHost reads the host's configuration, which is YAML of one meaning only:
// what it does not know, or knows in two ways, it refuses with the code
// [errcode.ConfigInvalid], the line and the key.
func ParseHost(data []byte) (*Host, error) {
	h, err := parseHost(data)
	if err != nil {
		return nil, errcode.Wrap(errcode.ConfigInvalid, "read the host's configuration", err)
	}
	return h, nil
}

func parseHost(data []byte) (*Host, error) {
	if len(data) > MaxHostBytes {
		return nil, fmt.Errorf("the file is larger than %d bytes", MaxHostBytes)
	}
	root, err := document(data)
	if err != nil {
		return nil, err
	}
	top := item{node: root}
	f := &hostFile{Host: BuiltinHost(), drafts: map[string]draft{}, lines: map[string]int{}}
	if err := top.fields(f.keys()); err != nil {
		return nil, err
	}
	if f.version != 1 {
		return nil, errors.New("version: saw none, want version: 1")
	}
	return f.finish()
}

// hostFile is a configuration while it is read.
type hostFile struct {
	*Host

	version int64
	drafts  map[string]draft
	lines   map[string]int // of the keys that other keys are compared with
}

// keys are what may stand at the top of the file.
func (f *hostFile) keys() map[string]func(item) error {
	return map[string]func(item) error{
		"version":             f.readVersion,
		"default_profile":     f.text(&f.DefaultProfile, nil),
		"allowed_profiles":    f.list(&f.AllowedProfiles, nil),
		"allowed_annotations": f.list(&f.AllowedAnnotations, annotationKey),
		"linux_quota_mount":   f.text(&f.QuotaMount, cleanPath),
		"linux_cgroup_root":   f.text(&f.CgroupRoot, cgroupRoot),
		"linux_execution_uid": f.id(&f.ExecutionUID),
		"linux_execution_gid": f.id(&f.ExecutionGID),
		"quota":               f.readQuota,
		"audit_dir":           f.text(&f.AuditDir, notRoot),
		"read_paths":          f.list(&f.ReadPaths, hostDirectory),
		"command_path":        f.text(&f.CommandPath, parseCommandPath),
		"write_paths":         f.list(&f.WritePaths, hostDirectory),
		"devices":             f.readDevices,
		"shared_namespaces":   f.list(&f.SharedNamespaces, namespace),
		"hooks":               f.list(&f.Hooks, program),
		"init_binaries":       f.list(&f.InitBinaries, program),
		"egress":              f.readEgress,
		"profiles":            f.readProfiles,
	}
}

func (f *hostFile) readVersion(it item) error {
	var err error
	if f.version, err = it.number(); err != nil {
		return err
	}
	if f.version != 1 {
		return it.fault("saw %d, want 1", f.version)
	}
	return nil
}

// text makes a reader of a string that check, if there is one, accepts.
func (f *hostFile) text(into *string, check func(string) error) func(item) error {
	return func(it item) error {
		text, err := it.string()
		if err != nil {
			return err
		}
		if check != nil {
			if err := check(text); err != nil {
				return it.fault("%w", err)
			}
		}
		*into, f.lines[it.key] = text, it.line
		return nil
	}
}

func (f *hostFile) list(into *[]string, check func(string) error) func(item) error {
	return func(it item) error {
		list, err := it.list(nodeString)
		if err != nil {
			return err
		}
		for i, text := range list {
			if check == nil {
				break
			}
			if err := check(text); err != nil {
				return faultAt(it.values[i].line, fmt.Sprintf("%s[%d]", it.key, i), err)
			}
		}
		*into, f.lines[it.key] = sorted(list), it.line
		return nil
	}
}

// id reads a user or group that replaces root, and so is not root. The highest
// one means "no change" to the kernel.
func (f *hostFile) id(into **uint32) func(item) error {
	return func(it item) error {
		n, err := it.number()
		if err != nil {
			return err
		}
		if n < 1 || n >= 1<<32-1 {
			return it.fault("saw %d, want 1 to %d: it stands in for root", n, int64(1<<32-2))
		}
		id := uint32(n)
		*into, f.lines[it.key] = &id, it.line
		return nil
	}
}

func annotationKey(s string) error {
	if s == "*" || knownAnnotation(s) {
		return nil
	}
	return fmt.Errorf(`saw no key of an annotation, want "*" or some of %s`, listText(AnnotationKeys()))
}

func notRoot(s string) error {
	if s == "/" {
		return errors.New("saw /, want a directory below it")
	}
	return cleanPath(s)
}

func cgroupRoot(s string) error {
	if err := cleanPath(s); err != nil {
		return err
	}
	if !strings.HasPrefix(s, "/sys/fs/cgroup/") {
		return errors.New("saw a path elsewhere, want one below /sys/fs/cgroup")
	}
	return nil
}

// program is the path of one on the host; directories of the kernel hold none.
func program(s string) error { return hostDirectory(s) }

// shareable are the namespaces that containers of a pod may have in common;
// the others would join what they can see or do.
var shareable = []string{"ipc", "network", "pid", "uts"}

func namespace(s string) error {
	_, err := oneWord(s, shareable)
	return err
}

// finish brings what was read into force: profiles with what they extend, and
// the rules that hold between keys.
func (f *hostFile) finish() (*Host, error) {
	if err := f.flattenAll(); err != nil {
		return nil, err
	}
	if err := f.checkChoices(); err != nil {
		return nil, err
	}
	if (f.ExecutionUID == nil) != (f.ExecutionGID == nil) {
		line := max(f.lines["linux_execution_uid"], f.lines["linux_execution_gid"])
		return nil, faultAt(line, "linux_execution_uid", errors.New("saw half of an identity, want linux_execution_gid beside it, or neither"))
	}
	for _, name := range slices.Sorted(maps.Keys(f.drafts)) {
		if err := f.checkProfile(f.Profiles[name]); err != nil {
			return nil, err
		}
	}
	if err := f.checkPaths(); err != nil {
		return nil, err
	}
	return f.Host, nil
}

func (f *hostFile) checkProfile(p *Profile) error {
	forced := p.defaults[keyForceEnv]
	if f.CommandPath != "" && slices.Contains(namesOf(forced.list), "PATH") {
		return faultAt(forced.line, join("profiles", p.Name)+".defaults."+keyForceEnv,
			errors.New("saw PATH beside command_path, which sets it too; want one of them"))
	}
	return p.check()
}

// checkChoices looks up the profiles that are named at the top.
func (f *hostFile) checkChoices() error {
	names := listText(f.ProfileNames())
	if f.Profiles[f.DefaultProfile] == nil {
		return faultAt(f.lines["default_profile"], "default_profile", fmt.Errorf("saw %.64q, want one of %s", f.DefaultProfile, names))
	}
	line := f.lines["allowed_profiles"]
	if line == 0 {
		f.AllowedProfiles = selectable(f.Profiles)
	}
	for _, name := range f.AllowedProfiles {
		if name == CompatProfile {
			return faultAt(line, "allowed_profiles", errors.New("saw compat, which a bundle may never choose; only default_profile may be compat"))
		}
		if f.Profiles[name] == nil {
			return faultAt(line, "allowed_profiles", fmt.Errorf("saw %.64q, want some of %s", name, names))
		}
	}
	return nil
}
