package runtime

import (
	"cmp"
	"errors"
	"fmt"
	"maps"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening"
	"github.com/sage-sandbox/sage/internal/audit"
	"github.com/sage-sandbox/sage/internal/doctor"
	"github.com/sage-sandbox/sage/internal/errcode"
	"github.com/sage-sandbox/sage/internal/state"
	"github.com/sage-sandbox/sage/spec"
)

// admitExec puts p under the policy that the container was made under, or
// refuses it. The second seccomp layer needs no step here: it is part of the
// configuration that libcontainer joins every process by.
func (l *Launch) admitExec(c *Container, record *state.Record, p *specs.Process, raw []byte) (*specs.Process, error) {
	host, err := l.policy()
	if err != nil {
		return nil, err
	}
	p, err = c.hardenExec(host, record, p, raw)
	if err != nil {
		l.refused(host, err)
	}
	return p, err
}

func (c *Container) hardenExec(host *spec.Host, record *state.Record, p *specs.Process, raw []byte) (*specs.Process, error) {
	if err := checkStale(host, record); err != nil {
		return nil, err
	}
	if raw != nil {
		if err := hardening.UnknownProcessFields(raw); err != nil {
			return nil, err
		}
	}
	err := c.checkInit(record)
	if err != nil {
		return nil, errcode.Wrap(errcode.EnforcementFailed, "look at the container before exec", err)
	}
	facts := hostFacts()
	facts.UIDMappings, facts.GIDMappings = c.idMappings()
	if facts.Egress, err = c.egressFacts(record); err != nil {
		return nil, err
	}
	p, _, err = hardening.ApplyProcess(p, record.Policy, facts)
	return p, err
}

// idMappings are those of the container's own user namespace.
func (c *Container) idMappings() (uids, gids []specs.LinuxIDMapping) {
	config := c.c.Config()
	return ociMappings(config.UIDMappings), ociMappings(config.GIDMappings)
}

func ociMappings(in []configs.IDMap) (out []specs.LinuxIDMapping) {
	for _, m := range in {
		out = append(out, specs.LinuxIDMapping{ContainerID: uint32(m.ContainerID), HostID: uint32(m.HostID), Size: uint32(m.Size)})
	}
	return out
}

// checkStale compares the policy of the container with the one that it would
// get now: a changed policy takes a new container (S-020).
func checkStale(host *spec.Host, record *state.Record) error {
	now, err := spec.Resolve(host, record.Request.Spec())
	if err != nil {
		return errcode.Wrap(errcode.PolicyStale, "resolve the policy again", err)
	}
	if digest := now.Policy.Digest(); digest != record.Digest {
		return errcode.Wrap(errcode.PolicyStale, "compare policies",
			fmt.Errorf("the container was made under policy %.12s, and the host's configuration now gives it %.12s: make it again", record.Digest, digest))
	}
	return nil
}

// checkInit is what can be seen of the running init without stopping it.
func (c *Container) checkInit(record *state.Record) error {
	saved, err := c.c.State()
	if err != nil {
		return err
	}
	got, err := doctor.Filters(saved.InitProcessPid)
	if err != nil {
		return err
	}
	if got < record.Posture.Filters {
		return fmt.Errorf("seccomp filters of init: saw %d, want %d at least", got, record.Posture.Filters)
	}
	return cmp.Or(checkLimitFiles(record, saved), checkDiskLimit(record), c.host.checkNetwork(record, saved.InitProcessPid))
}

func execAudit(record *state.Record, uid uint32) func(pid int) error {
	return func(pid int) error {
		return audit.Append(record.Audit, audit.Event{
			Event: audit.Exec, ID: record.ID, Digest: record.Digest, Pid: pid, UID: &uid,
		})
	}
}

// tighten refuses an update that gives the container more than it has.
func (c *Container) tighten(u *Update, now *cgroups.Resources) error {
	record, err := c.policy()
	if err != nil || record == nil {
		return err
	}
	if u.L3CacheSchema != "" || u.MemBwSchema != "" {
		return errcode.Wrap(errcode.PermissionDenied, "update", errors.New("schemas of Intel RDT are for the profile compat"))
	}
	if err := hardening.Tighter(inForce(now), &u.Resources); err != nil {
		return err
	}
	if err := u.keep(c.c.Config().Cgroups); err != nil {
		return err
	}
	return audit.Append(record.Audit, audit.Event{Event: audit.Update, ID: record.ID, Digest: record.Digest, Detail: u.Resources})
}

// checkUpdated reads back what an update has written (S-131).
func (c *Container) checkUpdated() error {
	record, err := c.policy()
	if err != nil || record == nil {
		return err
	}
	saved, err := c.c.State()
	if err != nil {
		return err
	}
	return checkLimitsAgain(record, saved)
}

// keep puts the limits of now in for the zeros that mean to leave them, and
// keeps the raw files that the update does not name: what is recorded is what
// the next update is compared with, and what is read back from then on.
func (u *Update) keep(group *cgroups.Cgroup) error {
	now := group.Resources
	hardening.FoldUnified(&u.Resources)
	if len(now.Unified) > 0 {
		raw := maps.Clone(now.Unified)
		maps.Copy(raw, u.Resources.Unified)
		u.Resources.Unified = raw
	}
	if cpu := u.Resources.CPU; cpu != nil && group.Systemd {
		if err := hardening.WholePercent("cpu.quota", cpu); err != nil {
			return errcode.Wrap(errcode.PermissionDenied, "update the container", err)
		}
	}
	u.keepZeros(now)
	return nil
}

func (u *Update) keepZeros(now *cgroups.Resources) {
	u.keepCPU(now)
	if p := u.Resources.Pids; p != nil && p.Limit == nil {
		p.Limit = now.PidsLimit
	}
	m := u.Resources.Memory
	if m == nil {
		return
	}
	for limit, is := range map[**int64]*int64{&m.Limit: &now.Memory, &m.Swap: &now.MemorySwap, &m.Reservation: &now.MemoryReservation} {
		if zero(*limit) {
			*limit = is
		}
	}
}

// keepCPU: libcontainer takes an absent list for one that is lifted.
func (u *Update) keepCPU(now *cgroups.Resources) {
	cpu := u.Resources.CPU
	if cpu == nil {
		return
	}
	if zero(cpu.Quota) && zero(cpu.Period) {
		cpu.Quota, cpu.Period = &now.CpuQuota, &now.CpuPeriod
	}
	cpu.Cpus, cpu.Mems = cmp.Or(cpu.Cpus, now.CpusetCpus), cmp.Or(cpu.Mems, now.CpusetMems)
	cpu.Idle = cmp.Or(cpu.Idle, now.CPUIdle)
}

func zero[T int64 | uint64](p *T) bool { return p == nil || *p == 0 }

// inForce states libcontainer's resources in OCI terms.
func inForce(r *cgroups.Resources) *specs.LinuxResources {
	return &specs.LinuxResources{
		Memory:  &specs.LinuxMemory{Limit: &r.Memory, Swap: &r.MemorySwap, Reservation: &r.MemoryReservation},
		CPU:     &specs.LinuxCPU{Shares: &r.CpuShares, Quota: &r.CpuQuota, Period: &r.CpuPeriod, Burst: r.CpuBurst, Cpus: r.CpusetCpus, Mems: r.CpusetMems, Idle: r.CPUIdle},
		Pids:    &specs.LinuxPids{Limit: r.PidsLimit},
		Unified: r.Unified,
	}
}

// compatOnly refuses op for a container under policy.
func (c *Container) compatOnly(op string) error {
	record, err := c.policy()
	if err != nil || record == nil {
		return err
	}
	return errcode.Wrap(errcode.CapabilityUnsupported, op,
		fmt.Errorf("the container is under the policy of profile %s; an image could carry any filter, capability or socket, so this is for the profile compat", record.Policy.Profile))
}
