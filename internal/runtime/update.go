package runtime

import (
	"errors"
	"slices"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runc/libcontainer/intelrdt"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Update changes the limits of a container. Absent values keep what they are,
// but for those where 0 or "" means to reset, as the code says.
type Update struct {
	Resources     specs.LinuxResources
	L3CacheSchema string // Intel RDT, "" for unchanged
	MemBwSchema   string
}

// Update writes new limits to the container's cgroup and to its record.
func (c *Container) Update(u Update) error {
	config := c.c.Config()
	if err := c.tighten(&u, config.Cgroups.Resources); err != nil {
		return err
	}
	if err := u.setRdt(&config); err != nil {
		return err
	}
	r := config.Cgroups.Resources
	setBlkio(r, u.Resources.BlockIO)
	setCPU(r, u.Resources.CPU)
	setMemory(r, u.Resources.Memory)
	if u.Resources.Pids != nil {
		r.PidsLimit = u.Resources.Pids.Limit
	}
	r.Unified = u.Resources.Unified
	// Device rules are not part of an update, and others (a GPU's tools) may
	// have added to them since create.
	r.SkipDevices = true
	if err := c.c.Set(config); err != nil {
		return err
	}
	return c.checkUpdated()
}

func (u *Update) setRdt(config *configs.Config) error {
	switch {
	case u.L3CacheSchema == "" && u.MemBwSchema == "":
		return nil
	case u.L3CacheSchema != "" && !intelrdt.IsCATEnabled():
		return errors.New("Intel RDT/CAT: l3 cache schema is not enabled") //nolint:staticcheck // a name, and runc's phrase
	case u.MemBwSchema != "" && !intelrdt.IsMBAEnabled():
		return errors.New("Intel RDT/MBA: memory bandwidth schema is not enabled") //nolint:staticcheck // a name, and runc's phrase
	case config.IntelRdt == nil:
		// Its group is made, and the processes put into it, at create only.
		return errors.New("updating a non-existent Intel RDT configuration is not supported")
	}
	replace(&config.IntelRdt.L3CacheSchema, u.L3CacheSchema)
	replace(&config.IntelRdt.MemBwSchema, u.MemBwSchema)
	return nil
}

// set stores *src where there is one.
func set[T any](dst, src *T) {
	if src != nil {
		*dst = *src
	}
}

func setCPU(r *cgroups.Resources, cpu *specs.LinuxCPU) {
	if cpu == nil {
		return
	}
	setBandwidth(r, cpu)
	r.CpuBurst = cpu.Burst
	r.CPUIdle = cpu.Idle
	set(&r.CpuRtPeriod, cpu.RealtimePeriod)
	set(&r.CpuRtRuntime, cpu.RealtimeRuntime)
	r.CpusetCpus, r.CpusetMems = cpu.Cpus, cpu.Mems
	shares := cpu.Shares
	if cpu.Idle != nil && shares == nil {
		// An idle cgroup has no weight, and the kernel refuses to write one.
		shares = new(uint64)
	}
	if shares != nil {
		r.CpuShares = *shares
		r.CpuWeight = cgroups.ConvertCPUSharesToCgroupV2Value(*shares)
	}
}

// setBandwidth treats quota and period as one value when both or neither are
// given. One alone changes, against sense but as runc always allowed, and the
// other stays: systemd and cpu.max need to be told both.
func setBandwidth(r *cgroups.Resources, cpu *specs.LinuxCPU) {
	var period uint64
	var quota int64
	set(&period, cpu.Period)
	set(&quota, cpu.Quota)
	if both := (period != 0) == (quota != 0); both || period != 0 {
		r.CpuPeriod = period
	}
	if both := (period != 0) == (quota != 0); both || quota != 0 {
		r.CpuQuota = quota
	}
}

func setMemory(r *cgroups.Resources, m *specs.LinuxMemory) {
	if m == nil {
		return
	}
	set(&r.Memory, m.Limit)
	set(&r.MemoryReservation, m.Reservation)
	set(&r.MemorySwap, m.Swap)
	set(&r.MemoryCheckBeforeUpdate, m.CheckBeforeUpdate)
	if m.Limit != nil && *m.Limit == -1 && m.Swap == nil {
		// Without a memory limit libcontainer refuses to keep a swap limit.
		r.MemorySwap = 0
	}
}

func setBlkio(r *cgroups.Resources, b *specs.LinuxBlockIO) {
	if b == nil {
		return
	}
	set(&r.BlkioWeight, b.Weight)
	set(&r.BlkioLeafWeight, b.LeafWeight)
	for _, d := range b.WeightDevice {
		r.BlkioWeightDevice = setWeight(r.BlkioWeightDevice, d)
	}
	for _, t := range []struct {
		have *[]*cgroups.ThrottleDevice
		want []specs.LinuxThrottleDevice
	}{
		{&r.BlkioThrottleReadBpsDevice, b.ThrottleReadBpsDevice},
		{&r.BlkioThrottleWriteBpsDevice, b.ThrottleWriteBpsDevice},
		{&r.BlkioThrottleReadIOPSDevice, b.ThrottleReadIOPSDevice},
		{&r.BlkioThrottleWriteIOPSDevice, b.ThrottleWriteIOPSDevice},
	} {
		for _, d := range t.want {
			*t.have = setRate(*t.have, d)
		}
	}
}

// setWeight changes the last entry of the device, which is the one that the
// kernel keeps where there are two, or adds one.
func setWeight(have []*cgroups.WeightDevice, want specs.LinuxWeightDevice) []*cgroups.WeightDevice {
	for _, d := range slices.Backward(have) {
		if d.Major == want.Major && d.Minor == want.Minor {
			set(&d.Weight, want.Weight)
			set(&d.LeafWeight, want.LeafWeight)
			return have
		}
	}
	d := cgroups.NewWeightDevice(want.Major, want.Minor, 0, 0)
	set(&d.Weight, want.Weight)
	set(&d.LeafWeight, want.LeafWeight)
	return append(have, d)
}

func setRate(have []*cgroups.ThrottleDevice, want specs.LinuxThrottleDevice) []*cgroups.ThrottleDevice {
	for _, d := range slices.Backward(have) {
		if d.Major == want.Major && d.Minor == want.Minor {
			d.Rate = want.Rate
			return have
		}
	}
	return append(have, cgroups.NewThrottleDevice(want.Major, want.Minor, want.Rate))
}
