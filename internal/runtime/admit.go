package runtime

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/internal/audit"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/spec"
)

// admission is a bundle that the policy lets in: hardened, with what the
// kernel is to show for it.
type admission struct {
	*survey
	record  state.Record
	result  hardening.Result
	cgroups map[string]string // directories, by controller; under "" for cgroup v2
	saving  func() error      // waits for the record to be written
	disk    *diskPlan         // nil without a hard limit
	network network
	limits  *heldLimits // as read back; nil where none is hard
}

// admit puts s under the host's policy, or refuses it. It returns nil under a
// profile without policy. Nothing on the host has been changed when it returns.
func (l *Launch) admit(b *bundle) (*admission, error) {
	host, err := l.policy()
	if err != nil {
		return nil, err
	}
	a, err := l.resolve(host, b)
	if err != nil {
		l.refused(host, err)
	}
	return a, err
}

func (l *Launch) resolve(host *spec.Host, b *bundle) (*admission, error) {
	resolution, err := spec.Resolve(host, b.spec)
	if err != nil || resolution.Policy.Compat {
		return nil, err
	}
	if err := cmp.Or(l.enforceable(resolution.Policy), l.checkHardLimits(host, resolution.Policy, b.spec)); err != nil {
		return nil, err
	}
	if err := hardening.UnknownFields(b.raw); err != nil {
		return nil, err
	}
	v, err := newSurvey(b.spec, resolution.Policy)
	if err != nil {
		return nil, err
	}
	a := &admission{survey: v}
	if err := l.harden(a, host, b.spec, resolution); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (l *Launch) harden(a *admission, host *spec.Host, s *specs.Spec, r spec.Resolution) error {
	var err error
	a.facts.SystemdCgroup, a.facts.Egress = l.Host.SystemdCgroup, l.egressFacts(a.survey)
	if a.result, err = hardening.Apply(s, r.Policy, a.facts); err != nil {
		return err
	}
	if err := l.keepsOff(host, a); err != nil {
		return err
	}
	file, err := audit.Path(host.AuditDir, l.ID)
	if err != nil {
		return err
	}
	a.record = state.Record{
		ID: l.ID, Policy: r.Policy, Request: request(s), Audit: file,
		Posture: hardening.Expected(a.result.Spec.Process, a.result.Spec, r.Policy, a.result.Filter),
		Inet:    a.result.Network.NoInet == "",
		// Through those of a published port others come in.
		Links: r.Policy.Network.Mode == spec.NetworkNone && r.Policy.Network.Listen != spec.ListenAny && a.result.Network.Own,
	}
	err = l.planDisk(host, a)
	a.record.Disk = a.disk.toSave()
	return cmp.Or(err, a.planNetwork(host))
}

// request is what [spec.Resolve] looks at.
func request(s *specs.Spec) state.Request {
	out := state.Request{Version: s.Version, Annotations: map[string]string{}, Root: s.Root}
	for key, value := range s.Annotations {
		if strings.HasPrefix(key, "sage.") || slices.Contains(spec.PauseAnnotations, key) {
			out.Annotations[key] = value
		}
	}
	if s.Linux != nil {
		out.Resources = s.Linux.Resources
	}
	return out
}

// enforceable refuses a policy that this version, or this caller, cannot hold.
func (l *Launch) enforceable(p spec.Policy) error {
	refuse := func(code errcode.Code, format string, args ...any) error {
		return errcode.Wrap(code, "admit under profile "+p.Profile, fmt.Errorf(format, args...))
	}
	switch {
	case os.Geteuid() != 0:
		return refuse(errcode.CapabilityUnsupported, "saw user %d, want root: only root can read back what the kernel enforces", os.Geteuid())
	case l.NoPivot:
		return refuse(errcode.PermissionDenied, "--no-pivot: saw it, want pivot_root: without, the host's root stays behind the container's")
	case l.criu != nil:
		return refuse(errcode.CapabilityUnsupported, "restore is for the profile compat: an image could carry any filter, capability or socket")
	case p.Process.MaxOutputBytes > 0 && !l.countsOutput():
		return refuse(errcode.CapabilityUnsupported, "process.max_output_bytes: saw %d bytes and nobody to count them; want run without --detach, or containerd's runtime type io.containerd.sage.v2 without a log driver of its own (binary://, file://), or no such limit", p.Process.MaxOutputBytes)
	}
	return nil
}

// keepsOff refuses a root file system, and a writable mount, that holds what
// decides over containers: the configuration, this program, the state and the
// audit files (S-045).
func (l *Launch) keepsOff(host *spec.Host, a *admission) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	hardened := a.result.Spec
	ours := append([]string{exe, l.Host.Config, l.Host.Root, host.AuditDir}, hookPaths(hardened.Hooks)...)
	if err := holdsNone("root.path", a.facts.RootFS, ours); err != nil {
		return err
	}
	for i, m := range hardened.Mounts {
		if !isBind(&m) || slices.Contains(m.Options, "ro") {
			continue
		}
		if err := holdsNone(fmt.Sprintf("mounts[%d].source", i), m.Source, ours); err != nil {
			return err
		}
	}
	return nil
}

func holdsNone(field, dir string, ours []string) error {
	for _, path := range ours {
		if path = realPath(path); path != "" && isBelow(path, dir) {
			return errcode.Wrap(errcode.PermissionDenied, "check "+field,
				fmt.Errorf("%s: saw %s, in which %s is, with which the host decides over containers; want another directory", field, dir, path))
		}
	}
	return nil
}

func hookPaths(h *specs.Hooks) (paths []string) {
	if h == nil {
		return nil
	}
	//nolint:staticcheck // Prestart is deprecated and still sent
	for _, hook := range slices.Concat(h.Prestart, h.CreateRuntime, h.CreateContainer, h.StartContainer, h.Poststart, h.Poststop) {
		paths = append(paths, hook.Path)
	}
	return paths
}

// realPath resolves as much of path as exists.
func realPath(path string) string {
	if path == "" || path == "/" {
		return path
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return filepath.Join(realPath(filepath.Dir(path)), filepath.Base(path))
	}
	return resolved
}

// refused writes down that the host said no. The refusal is what the caller
// gets to see, so a failure of the audit adds nothing for it.
func (l *Launch) refused(host *spec.Host, err error) {
	if path, pathErr := audit.Path(host.AuditDir, l.ID); pathErr == nil {
		_ = audit.Append(path, audit.Event{
			Event: audit.Refuse, ID: l.ID, Code: string(errcode.Of(err)), Message: err.Error(),
		})
	}
}
