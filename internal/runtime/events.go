package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/intelrdt"
	"github.com/opencontainers/runc/types"
	"github.com/sirupsen/logrus"

	"github.com/sage-sandbox/sage/egress"
)

// Event is one line of the events command, in the form that containerd's shim
// decodes.
type Event = types.Event

// Stats reads the container's counters once.
func (c *Container) Stats() (*Event, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	return c.stats()
}

func (c *Container) stats() (*Event, error) {
	s, err := c.c.Stats()
	if err != nil {
		return nil, err
	}
	e := &Event{Type: "stats", ID: c.c.ID(), Data: convertStats(s)}
	c.addEgress(e)
	return e, nil
}

// proxiedStats are runc's, and beside them what sage counts. That is below a key
// of its own: runc may give any other a meaning. containerd's shim passes over
// what it does not know.
type proxiedStats struct {
	*types.Stats
	Sage struct {
		Egress *EgressStats `json:"egress"`
	} `json:"sage"`
}

// addEgress adds the counters of the proxy where there is one, and leaves e as
// runc has it where there is none. Counters that cannot be read hide no others.
func (c *Container) addEgress(e *Event) {
	stats, ok := e.Data.(*types.Stats)
	record, err := c.policy()
	if ok && stats != nil && err == nil && proxied(record) {
		var counts *egress.Counts
		if counts, err = c.host.egressCounts(record.ID, false); err == nil && counts != nil {
			with := &proxiedStats{Stats: stats}
			with.Sage.Egress = egressStats(counts)
			e.Data = with
		}
	}
	if err != nil {
		logrus.Warnf("container %s: egress: %v", c.c.ID(), err)
	}
}

// Events calls emit with the counters every interval, and at once when the
// kernel kills a process for want of memory, until the container is gone.
// interval must be positive.
func (c *Container) Events(ctx context.Context, interval time.Duration, emit func(*Event) error) error {
	if err := c.alive(); err != nil {
		return err
	}
	oom, err := c.c.NotifyOOM()
	if err != nil {
		return err
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		var event *Event
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, open := <-oom:
			if !open { // the cgroup is gone, or nothing is in it any more
				return c.emitEnding(emit)
			}
			event = &Event{Type: "oom", ID: c.c.ID()}
		case <-ticker.C:
			if event, err = c.stats(); err != nil {
				logrus.Error(err)
				continue
			}
		}
		if err := emit(event); err != nil {
			return err
		}
	}
}

// emitEnding is the last event of a container under a policy, where it is known
// how that ended.
func (c *Container) emitEnding(emit func(*Event) error) error {
	e := c.ending()
	if e == nil {
		return nil
	}
	return emit(&Event{Type: "exit", ID: c.c.ID(), Data: e})
}

func (c *Container) alive() error {
	status, err := c.c.Status()
	if err == nil && status == libcontainer.Stopped {
		err = fmt.Errorf("container with id %s is not running", c.c.ID())
	}
	return err
}

func convertStats(in *libcontainer.Stats) *types.Stats {
	cg := in.CgroupStats
	if cg == nil {
		return nil
	}
	out := &types.Stats{
		CPU:    cpuStats(&cg.CpuStats),
		CPUSet: types.CPUSet(cg.CPUSetStats),
		Memory: memoryStats(&cg.MemoryStats),
		Pids:   types.Pids{Current: cg.PidsStats.Current, Limit: cg.PidsStats.Limit},
		Blkio:  blkioStats(&cg.BlkioStats),

		Hugetlb:           map[string]types.Hugetlb{},
		NetworkInterfaces: in.Interfaces,
	}
	for size, h := range cg.HugetlbStats {
		out.Hugetlb[size] = types.Hugetlb{Usage: h.Usage, Max: h.MaxUsage, Failcnt: h.Failcnt}
	}
	if in.IntelRdtStats != nil {
		out.IntelRdt = rdtStats(in.IntelRdtStats)
	}
	return out
}

func cpuStats(in *cgroups.CpuStats) types.Cpu {
	u := &in.CpuUsage
	return types.Cpu{
		Usage: types.CpuUsage{
			Total: u.TotalUsage, Kernel: u.UsageInKernelmode, User: u.UsageInUsermode,
			Percpu: u.PercpuUsage, PercpuKernel: u.PercpuUsageInKernelmode, PercpuUser: u.PercpuUsageInUsermode,
		},
		Throttling: types.Throttling{
			Periods:          in.ThrottlingData.Periods,
			ThrottledPeriods: in.ThrottlingData.ThrottledPeriods,
			ThrottledTime:    in.ThrottlingData.ThrottledTime,
		},
		PSI: in.PSI,
	}
}

func memoryStats(in *cgroups.MemoryStats) types.Memory {
	entry := func(d cgroups.MemoryData) types.MemoryEntry {
		return types.MemoryEntry{Limit: d.Limit, Usage: d.Usage, Max: d.MaxUsage, Failcnt: d.Failcnt}
	}
	return types.Memory{
		Cache: in.Cache, Raw: in.Stats, PSI: in.PSI,
		Usage: entry(in.Usage), Swap: entry(in.SwapUsage),
		Kernel: entry(in.KernelUsage), KernelTCP: entry(in.KernelTCPUsage),
	}
}

func blkioStats(in *cgroups.BlkioStats) types.Blkio {
	entries := func(list []cgroups.BlkioStatEntry) []types.BlkioEntry {
		out := make([]types.BlkioEntry, 0, len(list))
		for _, e := range list {
			out = append(out, types.BlkioEntry(e))
		}
		return out
	}
	return types.Blkio{
		IoServiceBytesRecursive: entries(in.IoServiceBytesRecursive),
		IoServicedRecursive:     entries(in.IoServicedRecursive),
		IoQueuedRecursive:       entries(in.IoQueuedRecursive),
		IoServiceTimeRecursive:  entries(in.IoServiceTimeRecursive),
		IoWaitTimeRecursive:     entries(in.IoWaitTimeRecursive),
		IoMergedRecursive:       entries(in.IoMergedRecursive),
		IoTimeRecursive:         entries(in.IoTimeRecursive),
		SectorsRecursive:        entries(in.SectorsRecursive),
		PSI:                     in.PSI,
	}
}

// rdtStats reports only what this machine has; the rest would be zeros that
// look like measurements.
func rdtStats(in *intelrdt.Stats) types.IntelRdt {
	out := types.IntelRdt{Schemata: in.Schemata}
	if intelrdt.IsCATEnabled() {
		if in.L3CacheInfo != nil {
			info := types.L3CacheInfo(*in.L3CacheInfo)
			out.L3CacheInfo = &info
		}
		out.L3CacheSchemaRoot, out.L3CacheSchema = in.L3CacheSchemaRoot, in.L3CacheSchema
	}
	if intelrdt.IsMBAEnabled() {
		if in.MemBwInfo != nil {
			info := types.MemBwInfo(*in.MemBwInfo)
			out.MemBwInfo = &info
		}
		out.MemBwSchemaRoot, out.MemBwSchema = in.MemBwSchemaRoot, in.MemBwSchema
	}
	if intelrdt.IsMBMEnabled() {
		out.MBMStats = in.MBMStats
	}
	if intelrdt.IsCMTEnabled() {
		out.CMTStats = in.CMTStats
	}
	return out
}
