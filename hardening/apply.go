package hardening

import (
	"errors"
	"fmt"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening/seccomp"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// Result is a hardened bundle.
type Result struct {
	Spec    *specs.Spec // a copy: the bundle's own is never changed
	Changes []Change    // in the order in which they were made, the same every time
	Filter  seccomp.Program
	Network Sockets
}

// Action is what was done to a field.
type Action string

// The actions of a [Change]; what is refused is an error and no change.
const (
	Tightened Action = "tighten"
	Dropped   Action = "drop"
	Added     Action = "add"
)

// Change is one difference between the bundle and its hardened copy. It never
// holds the value of an environment variable or an argument of a program.
type Change struct {
	Field  string `json:"field"` // as in config.json: "process.noNewPrivileges"
	Action Action `json:"action"`
	Was    string `json:"was,omitempty"`
	Now    string `json:"now,omitempty"`
	Why    string `json:"why"`
}

// hardener is the bundle of one [Apply] while it is being worked on.
type hardener struct {
	spec   *specs.Spec
	policy spec.Policy
	facts  Facts
	// outside is why AF_UNIX could lead out of the container by way of a mount.
	outside string
	record
}

// Apply gives a copy of the bundle that does what the policy allows and no
// more, or an error that says which part of the bundle it refuses and why.
func Apply(s *specs.Spec, p spec.Policy, f Facts) (Result, error) {
	r, err := apply(s, p, f)
	if err != nil {
		return Result{}, errcode.Wrap(errcode.PermissionDenied, "harden the bundle", err)
	}
	return r, nil
}

func apply(s *specs.Spec, p spec.Policy, f Facts) (Result, error) {
	if s == nil || s.Process == nil || s.Linux == nil || s.Root == nil {
		return Result{}, invalid("config.json", "want each of process, root and linux")
	}
	h := &hardener{spec: deepCopy(s), policy: p, facts: f}
	// Namespaces come first, since most other rules ask which are the container's
	// own; the sockets come last, since they depend on what is mounted.
	for _, step := range []func() error{
		h.fields, h.privileged, h.namespaces, h.identity, h.process, h.root, h.hooks, h.annotations,
		h.devices, h.mounts, h.egress, h.paths, h.sysctl, h.layer1, h.cgroup, h.resources, h.rest,
	} {
		if err := step(); err != nil {
			return Result{}, err
		}
	}
	sockets := h.sockets()
	filter, err := layer2(sockets, p, f)
	if err != nil {
		return Result{}, err
	}
	return Result{Spec: h.spec, Changes: h.changes, Filter: filter, Network: sockets}, nil
}

// identity is what [ApplyProcess] has to be told about the namespaces by the
// runtime, for an exec, and what the bundle itself says, at create.
func (h *hardener) identity() error {
	h.facts.UIDMappings, h.facts.GIDMappings = h.spec.Linux.UIDMappings, h.spec.Linux.GIDMappings
	h.facts.Egress.Own = holds(h.spec, specs.NetworkNamespace) == own
	return nil
}

func (h *hardener) process() error {
	p, changes, err := hardenProcess(h.spec.Process, h.policy, h.facts)
	if err != nil {
		return err
	}
	h.spec.Process = p
	h.changes = append(h.changes, changes...)
	return nil
}

// record collects changes.
type record struct{ changes []Change }

func (r *record) tighten(field, was, now, why string) {
	if was != now {
		r.changes = append(r.changes, Change{Field: field, Action: Tightened, Was: was, Now: now, Why: why})
	}
}

func (r *record) drop(field, was, why string) {
	r.changes = append(r.changes, Change{Field: field, Action: Dropped, Was: was, Why: why})
}

func (r *record) add(field, now, why string) {
	r.changes = append(r.changes, Change{Field: field, Action: Added, Now: now, Why: why})
}

// denied is what the policy refuses; [Apply] gives it its code.
func denied(field, format string, args ...any) error {
	return errors.New(field + ": " + fmt.Sprintf(format, args...))
}

// invalid is what no policy could accept.
func invalid(field, format string, args ...any) error {
	return errcode.Wrap(errcode.BundleInvalid, "read the bundle", denied(field, format, args...))
}
