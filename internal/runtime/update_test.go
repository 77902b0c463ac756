package runtime

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/runtime-spec/specs-go"
)

func TestSetCPU(t *testing.T) {
	have := func() *cgroups.Resources {
		return &cgroups.Resources{CpuPeriod: 100, CpuQuota: 50, CpuShares: 10, CpusetCpus: "0"}
	}
	tests := map[string]struct {
		in   *specs.LinuxCPU
		want *cgroups.Resources
	}{
		"absent block":  {in: nil, want: have()},
		"both":          {in: &specs.LinuxCPU{Period: new(uint64(7)), Quota: new(int64(8)), Cpus: "0"}, want: &cgroups.Resources{CpuPeriod: 7, CpuQuota: 8, CpuShares: 10, CpusetCpus: "0"}},
		"period alone":  {in: &specs.LinuxCPU{Period: new(uint64(7))}, want: &cgroups.Resources{CpuPeriod: 7, CpuQuota: 50, CpuShares: 10}},
		"quota alone":   {in: &specs.LinuxCPU{Quota: new(int64(-1))}, want: &cgroups.Resources{CpuPeriod: 100, CpuQuota: -1, CpuShares: 10}},
		"neither":       {in: &specs.LinuxCPU{}, want: &cgroups.Resources{CpuShares: 10}},
		"idle":          {in: &specs.LinuxCPU{Idle: new(int64(1))}, want: &cgroups.Resources{CPUIdle: new(int64(1))}},
		"shares":        {in: &specs.LinuxCPU{Shares: new(uint64(2))}, want: &cgroups.Resources{CpuShares: 2, CpuWeight: 1}},
		"realtime":      {in: &specs.LinuxCPU{RealtimePeriod: new(uint64(3)), RealtimeRuntime: new(int64(4))}, want: &cgroups.Resources{CpuShares: 10, CpuRtPeriod: 3, CpuRtRuntime: 4}},
		"burst, cpuset": {in: &specs.LinuxCPU{Burst: new(uint64(5)), Mems: "1"}, want: &cgroups.Resources{CpuShares: 10, CpuBurst: new(uint64(5)), CpusetMems: "1"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := have()
			setCPU(got, tt.in)
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSetMemory(t *testing.T) {
	tests := map[string]struct {
		in   *specs.LinuxMemory
		want cgroups.Resources
	}{
		"absent block":        {in: nil, want: cgroups.Resources{Memory: 1, MemorySwap: 2}},
		"limit":               {in: &specs.LinuxMemory{Limit: new(int64(5))}, want: cgroups.Resources{Memory: 5, MemorySwap: 2}},
		"unlimited":           {in: &specs.LinuxMemory{Limit: new(int64(-1))}, want: cgroups.Resources{Memory: -1}},
		"unlimited with swap": {in: &specs.LinuxMemory{Limit: new(int64(-1)), Swap: new(int64(-1))}, want: cgroups.Resources{Memory: -1, MemorySwap: -1}},
		"reservation":         {in: &specs.LinuxMemory{Reservation: new(int64(3)), CheckBeforeUpdate: new(true)}, want: cgroups.Resources{Memory: 1, MemorySwap: 2, MemoryReservation: 3, MemoryCheckBeforeUpdate: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := cgroups.Resources{Memory: 1, MemorySwap: 2}
			setMemory(&got, tt.in)
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSetBlkio: of two entries for one device the kernel keeps the last, so
// that is the one to change; a device without an entry gets one.
func TestSetBlkio(t *testing.T) {
	got := cgroups.Resources{
		BlkioWeightDevice:          []*cgroups.WeightDevice{cgroups.NewWeightDevice(8, 0, 1, 2), cgroups.NewWeightDevice(8, 0, 3, 4)},
		BlkioThrottleReadBpsDevice: []*cgroups.ThrottleDevice{cgroups.NewThrottleDevice(8, 0, 1)},
	}
	rate := func(minor int64, value uint64) specs.LinuxThrottleDevice {
		d := specs.LinuxThrottleDevice{Rate: value}
		d.Major, d.Minor = 8, minor
		return d
	}
	weight := specs.LinuxWeightDevice{Weight: new(uint16(9))}
	weight.Major = 8
	setBlkio(&got, &specs.LinuxBlockIO{
		Weight:                new(uint16(500)),
		WeightDevice:          []specs.LinuxWeightDevice{weight},
		ThrottleReadBpsDevice: []specs.LinuxThrottleDevice{rate(0, 7), rate(16, 8)},
	})
	want := cgroups.Resources{
		BlkioWeight:                500,
		BlkioWeightDevice:          []*cgroups.WeightDevice{cgroups.NewWeightDevice(8, 0, 1, 2), cgroups.NewWeightDevice(8, 0, 9, 4)},
		BlkioThrottleReadBpsDevice: []*cgroups.ThrottleDevice{cgroups.NewThrottleDevice(8, 0, 7), cgroups.NewThrottleDevice(8, 16, 8)},
	}
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(cgroups.WeightDevice{}, cgroups.ThrottleDevice{})); diff != "" {
		t.Error(diff)
	}
}
