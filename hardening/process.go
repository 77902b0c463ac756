package hardening

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/spec"
)

// ApplyProcess is [Apply] for one process: the init of a container, or an exec
// in it, under the same rules. Of the facts it needs those about the user
// namespace and the security modules.
func ApplyProcess(proc *specs.Process, p spec.Policy, f Facts) (*specs.Process, []Change, error) {
	out, changes, err := hardenProcess(proc, p, f)
	if err != nil {
		return nil, nil, errcode.Wrap(errcode.PermissionDenied, "harden the process", err)
	}
	return out, changes, nil
}

// processor is the process of one [ApplyProcess].
type processor struct {
	proc   *specs.Process
	policy spec.Policy
	facts  Facts
	record
}

func hardenProcess(proc *specs.Process, p spec.Policy, f Facts) (*specs.Process, []Change, error) {
	if proc == nil {
		return nil, nil, invalid("process", "want one")
	}
	h := &processor{proc: deepCopy(proc), policy: p, facts: f}
	// The user comes before the capabilities: what they are depends on it.
	for _, step := range []func() error{
		h.fields, h.user, h.capabilities, h.privileges, h.environment, h.directory,
		h.rlimits, h.memory, h.scheduling, h.labels,
	} {
		if err := step(); err != nil {
			return nil, nil, err
		}
	}
	return h.proc, h.changes, nil
}

func (h *processor) fields() error {
	return h.walk(h.proc, processFields(), "process")
}

// privileges forces what makes the second seccomp layer loadable as late as it
// is loaded, and set-user-ID programs harmless.
func (h *processor) privileges() error {
	if !h.proc.NoNewPrivileges {
		h.proc.NoNewPrivileges = true
		h.tighten("process.noNewPrivileges", "false", "true", "no program gains privileges by being executed")
	}
	return nil
}

// directory refuses what would resolve through an open descriptor of the
// runtime, as in CVE-2024-21626; libcontainer looks again when it is there.
func (h *processor) directory() error {
	cwd := h.proc.Cwd
	switch {
	case !path.IsAbs(cwd):
		return invalid("process.cwd", "want an absolute path")
	case strings.ContainsRune(cwd, 0):
		return invalid("process.cwd", "saw a NUL byte")
	case within(path.Clean(cwd), "/proc"), slices.Contains(strings.Split(cwd, "/"), ".."):
		return denied("process.cwd", `saw %q, want a directory outside /proc and no ".."`, cwd)
	}
	return nil
}

// memory gives an absent score the value of a common process: a shim's own is
// often negative, and init would inherit it. A negative one is cut and not
// refused, since Kubernetes has one for every pause container and for every
// container of a pod of the class Guaranteed, without anybody's asking.
func (h *processor) memory() error {
	const field = "process.oomScoreAdj"
	score := h.proc.OOMScoreAdj
	switch {
	case score == nil:
		h.proc.OOMScoreAdj = new(int)
		h.add(field, "0", "not inherited from the engine, whose processes are spared")
	case *score < 0:
		h.tighten(field, strconv.Itoa(*score), "0", "less would spare the container at the expense of the host")
		*score = 0
	}
	return nil
}

func (h *processor) scheduling() error {
	if err := judgeScheduler(h.proc.Scheduler); err != nil {
		return err
	}
	if io := h.proc.IOPriority; io != nil && io.Class != specs.IOPRIO_CLASS_BE && io.Class != specs.IOPRIO_CLASS_IDLE {
		return denied("process.ioPriority.class", "saw %q, want %s or %s", io.Class, specs.IOPRIO_CLASS_BE, specs.IOPRIO_CLASS_IDLE)
	}
	return nil
}

// judgeScheduler leaves what makes a process slower than others, never faster:
// a realtime process starves everything beside it on its CPU.
func judgeScheduler(s *specs.Scheduler) error {
	if s == nil {
		return nil
	}
	common := []specs.LinuxSchedulerPolicy{specs.SchedOther, specs.SchedBatch, specs.SchedIdle}
	flags := []specs.LinuxSchedulerFlag{specs.SchedFlagResetOnFork, specs.SchedFlagKeepPolicy, specs.SchedFlagKeepParams}
	switch {
	case !slices.Contains(common, s.Policy):
		return denied("process.scheduler.policy", "saw %q, want one of %v", s.Policy, common)
	case s.Nice < 0:
		return denied("process.scheduler.nice", "saw %d, want 0 or more", s.Nice)
	case s.Priority != 0 || s.Runtime != 0 || s.Deadline != 0 || s.Period != 0:
		return denied("process.scheduler", "want no priority, runtime, deadline or period: they are for realtime")
	}
	for _, flag := range s.Flags {
		if !slices.Contains(flags, flag) {
			return denied("process.scheduler.flags", "saw %q, want of %v", flag, flags)
		}
	}
	return nil
}

// labels asks for a profile where the host has AppArmor and wants one used. An
// absent one is not the default but none: the engine chooses.
func (h *processor) labels() error {
	if err := judgeLabel("process.selinuxLabel", h.proc.SelinuxLabel); err != nil || !h.policy.Files.RequireAppArmor {
		return err
	}
	const field = "process.apparmorProfile"
	if !h.facts.AppArmor {
		return errcode.Wrap(errcode.CapabilityUnsupported, "require AppArmor",
			denied(field, "files.require_apparmor is set, and this host has no AppArmor"))
	}
	if name := h.proc.ApparmorProfile; name == "" || name == "unconfined" {
		return denied(field, "saw %q, want a profile, as files.require_apparmor says", name)
	}
	return nil
}

// judgeLabel wants a security context and nothing that would end one: mountLabel
// becomes a part of the text of mount options, where more options could follow.
func judgeLabel(field, label string) error {
	for _, c := range label {
		if !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_-.:,", c) {
			return invalid(field, "saw %q in it, want letters, digits and _-.:, only", c)
		}
	}
	return nil
}
