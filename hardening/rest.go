package hardening

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// privileged refuses a bundle that is meant to be everything at once, where the
// host wants that said. Where it does not, each part is judged alone.
func (h *hardener) privileged() error {
	if !h.policy.Files.RefusePrivileged {
		return nil
	}
	l, caps := h.spec.Linux, h.spec.Process.Capabilities
	switch {
	case allDevices(l.Resources):
		return denied("linux.resources.devices", "saw a rule that allows every device, as of a privileged container, which files.refuse_privileged refuses")
	case caps != nil && slices.Contains(caps.Bounding, "CAP_SYS_ADMIN") && len(l.MaskedPaths)+len(l.ReadonlyPaths) == 0:
		return denied("process.capabilities", "saw CAP_SYS_ADMIN and no masked path, as of a privileged container, which files.refuse_privileged refuses")
	}
	return nil
}

// root refuses the host's own directories as a root file system, with which
// every rule about mounts would be void.
func (h *hardener) root() error {
	const field = "root.path"
	if at := h.facts.RootFS; !path.IsAbs(at) || path.Clean(at) != at {
		return denied(field, "nothing is known of where it is")
	}
	for _, p := range closed {
		if within(p.dir, h.facts.RootFS) {
			return denied(field, "saw %q, want a directory of the container's own: %s holds %s", h.facts.RootFS, p.dir, p.holds)
		}
	}
	if i := slices.IndexFunc(systemDirs, func(dir string) bool { return within(h.facts.RootFS, dir) }); i >= 0 {
		return denied(field, "saw %q, want a directory of the container's own: in %s are the programs of the host", h.facts.RootFS, systemDirs[i])
	}
	if h.policy.Files.ReadonlyRoot && !h.spec.Root.Readonly {
		h.spec.Root.Readonly = true
		h.tighten("root.readonly", "false", "true", "files.readonly_root")
	}
	return nil
}

// hooks are programs of the host, run as root on its behalf.
func (h *hardener) hooks() error {
	hooks := h.spec.Hooks
	if hooks == nil {
		return nil
	}
	for _, list := range []struct {
		name  string
		hooks []specs.Hook
	}{
		{"prestart", hooks.Prestart}, //nolint:staticcheck // deprecated, and still what engines send
		{"createRuntime", hooks.CreateRuntime},
		{"createContainer", hooks.CreateContainer},
		{"startContainer", hooks.StartContainer},
		{"poststart", hooks.Poststart},
		{"poststop", hooks.Poststop},
	} {
		for i := range list.hooks {
			if err := h.hook(fmt.Sprintf("hooks.%s[%d]", list.name, i), &list.hooks[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// hook trusts the program and not what the bundle tells its loader: a library
// of the container must not be run on the host (S-042). Such variables are
// dropped, since nerdctl hands over its caller's whole environment.
func (h *hardener) hook(field string, hook *specs.Hook) error {
	if !slices.Contains(h.policy.Files.Hooks, hook.Path) {
		return denied(field, "saw %.200q, want a program that hooks in the host's file lists", hook.Path)
	}
	var env []string
	for _, entry := range hook.Env {
		name, _, _ := strings.Cut(entry, "=")
		if slices.ContainsFunc(loaders, func(pattern string) bool { return matchesName(pattern, name) }) {
			h.drop(field+".env", name, "a program of the host loads nothing that a bundle names")
			continue
		}
		env = append(env, entry)
	}
	hook.Env = env
	return nil
}

// loaders are the names by which programs of the host would load code.
var loaders = strings.Fields(`
	LD_* GLIBC_* GCONV_PATH LOCPATH BASH_ENV BASH_FUNC_* ENV SHELLOPTS IFS PYTHONPATH PYTHONHOME PYTHONSTARTUP
	PERL5* RUBYOPT RUBYLIB NODE_OPTIONS NODE_PATH JAVA_TOOL_OPTIONS ` + runtimePrefix + "*")

// annotations are kept but for those that libcontainer hands to systemd as
// properties of the container's unit, which could lift any limit of it.
func (h *hardener) annotations() error {
	const prefix = "org.systemd.property."
	harmless := []string{"TimeoutStopUSec", "TimeoutStopSec", "CollectMode", "Description"}
	for _, key := range slices.Sorted(maps.Keys(h.spec.Annotations)) {
		name, ok := strings.CutPrefix(key, prefix)
		if ok && !slices.Contains(harmless, name) {
			return denied("annotations", "saw %.80q, want of systemd's properties only %s", key, strings.Join(harmless, ", "))
		}
	}
	return nil
}

// layer1 leaves the bundle's own filter alone, but for what hands its verdicts
// to somebody else: see [processFields] and the table for the listener.
func (h *hardener) layer1() error {
	const field = "linux.seccomp"
	s := h.spec.Linux.Seccomp
	if s == nil {
		return nil
	}
	if deputy(s.DefaultAction) {
		return denied(field+".defaultAction", "saw %s, want no other program to decide", s.DefaultAction)
	}
	for i, rule := range s.Syscalls {
		if deputy(rule.Action) {
			return denied(fmt.Sprintf("%s.syscalls[%d].action", field, i), "saw %s, want no other program to decide", rule.Action)
		}
	}
	for i, flag := range s.Flags {
		switch flag {
		case "SECCOMP_FILTER_FLAG_TSYNC", specs.LinuxSeccompFlagLog, specs.LinuxSeccompFlagSpecAllow:
		case specs.LinuxSeccompFlagWaitKillableRecv:
			h.drop(field+".flags", string(flag), "only of use to a listener")
		default:
			return denied(fmt.Sprintf("%s.flags[%d]", field, i), "saw %.60q, want one that sage knows", flag)
		}
	}
	s.Flags = slices.DeleteFunc(s.Flags, func(f specs.LinuxSeccompFlag) bool { return f == specs.LinuxSeccompFlagWaitKillableRecv })
	return nil
}

// deputy tells whether an action asks a listener or a tracer. Either could
// answer that a call is done, and sees what the program's memory holds.
func deputy(a specs.LinuxSeccompAction) bool { return a == specs.ActNotify || a == specs.ActTrace }

// rest are the fields of linux that are looked at and stand alone.
func (h *hardener) rest() error {
	l := h.spec.Linux
	for _, err := range []error{judgeLabel("linux.mountLabel", l.MountLabel), h.propagation(), judgePersonality(l.Personality), judgeRdt(l.IntelRdt)} {
		if err != nil {
			return err
		}
	}
	return nil
}

// propagation keeps mounts of the host from appearing in the container, which
// nobody would judge, and those of the container from leaving it.
func (h *hardener) propagation() error {
	const field, only = "linux.rootfsPropagation", "rprivate"
	now := &h.spec.Linux.RootfsPropagation
	switch {
	case *now == "":
	case slices.Contains(private, *now):
		h.tighten(field, *now, only, "no mount of the host appears in a container")
		*now = only
	default:
		return denied(field, "saw %.20q, want one of %s", *now, strings.Join(private, ", "))
	}
	return nil
}

func judgePersonality(p *specs.LinuxPersonality) error {
	const field = "linux.personality"
	switch {
	case p == nil:
	case p.Domain != specs.PerLinux:
		return denied(field+".domain", "saw %.20q, want %s: 32-bit programs are not run", p.Domain, specs.PerLinux)
	case len(p.Flags) > 0:
		return denied(field+".flags", "want none")
	}
	return nil
}

// judgeRdt leaves a container its own share of a cache. A named class is one
// that others are in, and a schema would change theirs.
func judgeRdt(r *specs.LinuxIntelRdt) error {
	if r == nil || r.ClosID == "" {
		return nil
	}
	if len(r.Schemata) > 0 || r.L3CacheSchema != "" || r.MemBwSchema != "" {
		return denied("linux.intelRdt", "saw a schema for the class %.40q, want none: others are in it", r.ClosID)
	}
	return nil
}
