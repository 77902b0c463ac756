package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/docker/go-units"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/sirupsen/logrus"
	"github.com/urfave/cli"

	"github.com/sage-sandbox/sage/internal/runtime"
)

func (c *command) update() cli.Command {
	return cli.Command{
		Name:      "update",
		Usage:     "update container resource constraints",
		ArgsUsage: `<container-id>`,
		Flags:     updateFlags(),
		Action: c.onContainer(func(ctx *cli.Context, container *runtime.Container) error {
			u := runtime.Update{
				// runc sets these whatever else is given, and an absent block
				// differs from an empty one.
				Resources: specs.LinuxResources{
					Memory: &specs.LinuxMemory{CheckBeforeUpdate: new(false)},
					CPU:    &specs.LinuxCPU{}, BlockIO: &specs.LinuxBlockIO{}, Pids: &specs.LinuxPids{},
				},
				L3CacheSchema: ctx.String("l3-cache-schema"),
				MemBwSchema:   ctx.String("mem-bw-schema"),
			}
			if err := c.readResources(ctx, &u.Resources); err != nil {
				return err
			}
			if m := u.Resources.Memory; m != nil && (m.Kernel != nil || m.KernelTCP != nil) { //nolint:staticcheck // deprecated, hence the warning
				logrus.Warn("Kernel memory settings are ignored and will be removed")
			}
			return container.Update(u)
		}),
	}
}

const resourcesUsage = `path to the file containing the resources to update or '-' to read from the standard input

The file holds a "resources" object of the OCI runtime specification, of which
memory (limit, reservation, swap, checkBeforeUpdate), cpu (shares, quota, burst,
period, realtimeRuntime, realtimePeriod, cpus, mems, idle), blockIO, pids and
unified count. Values that are left out stay as they are.

With it, no other option counts.
`

func updateFlags() []cli.Flag {
	return []cli.Flag{
		cli.StringFlag{Name: "resources, r", Usage: resourcesUsage},
		cli.IntFlag{Name: "blkio-weight", Usage: "Specifies per cgroup weight, range is from 10 to 1000"},
		cli.StringFlag{Name: "cpu-period", Usage: "CPU CFS period to be used for hardcapping (in usecs). 0 to use system default"},
		cli.StringFlag{Name: "cpu-quota", Usage: "CPU CFS hardcap limit (in usecs). Allowed cpu time in a given period"},
		cli.StringFlag{Name: "cpu-burst", Usage: "CPU CFS hardcap burst limit (in usecs). Allowed accumulated cpu time additionally for burst a given period"},
		cli.StringFlag{Name: "cpu-share", Usage: "CPU shares (relative weight vs. other containers)"},
		cli.StringFlag{Name: "cpu-rt-period", Usage: "CPU realtime period to be used for hardcapping (in usecs). 0 to use system default"},
		cli.StringFlag{Name: "cpu-rt-runtime", Usage: "CPU realtime hardcap limit (in usecs). Allowed cpu time in a given period"},
		cli.StringFlag{Name: "cpuset-cpus", Usage: "CPU(s) to use"},
		cli.StringFlag{Name: "cpuset-mems", Usage: "Memory node(s) to use"},
		cli.StringFlag{Name: "kernel-memory", Usage: "(obsoleted; do not use)", Hidden: true},
		cli.StringFlag{Name: "kernel-memory-tcp", Usage: "(obsoleted; do not use)", Hidden: true},
		cli.StringFlag{Name: "memory", Usage: "Memory limit (in bytes)"},
		cli.StringFlag{Name: "cpu-idle", Usage: "set cgroup SCHED_IDLE or not, 0: default behavior, 1: SCHED_IDLE"},
		cli.StringFlag{Name: "memory-reservation", Usage: "Memory reservation or soft_limit (in bytes)"},
		cli.StringFlag{Name: "memory-swap", Usage: "Total memory usage (memory + swap); set '-1' to enable unlimited swap"},
		cli.IntFlag{Name: "pids-limit", Usage: "Maximum number of pids allowed in the container"},
		cli.StringFlag{Name: "l3-cache-schema", Usage: "The string of Intel RDT/CAT L3 cache schema"},
		cli.StringFlag{Name: "mem-bw-schema", Usage: "The string of Intel RDT/MBA memory bandwidth schema"},
	}
}

func (c *command) readResources(ctx *cli.Context, r *specs.LinuxResources) error {
	var in io.Reader
	switch path := ctx.String("resources"); path {
	case "":
		return resourceFlags(ctx, r)
	case "-":
		in = c.env.In
	default:
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	return json.NewDecoder(in).Decode(r)
}

func resourceFlags(ctx *cli.Context, r *specs.LinuxResources) error {
	if weight := ctx.Int("blkio-weight"); weight != 0 {
		if weight < 0 || weight > 1000 {
			return fmt.Errorf("invalid value for blkio-weight: saw %d, want 10 to 1000", weight)
		}
		r.BlockIO.Weight = new(uint16(weight))
	}
	if ctx.IsSet("pids-limit") {
		r.Pids.Limit = new(int64(ctx.Int("pids-limit")))
	}
	r.CPU.Cpus, r.CPU.Mems = ctx.String("cpuset-cpus"), ctx.String("cpuset-mems")
	for _, err := range []error{
		number(ctx, "cpu-burst", &r.CPU.Burst, parseUint),
		number(ctx, "cpu-period", &r.CPU.Period, parseUint),
		number(ctx, "cpu-rt-period", &r.CPU.RealtimePeriod, parseUint),
		number(ctx, "cpu-share", &r.CPU.Shares, parseUint),
		number(ctx, "cpu-quota", &r.CPU.Quota, parseInt),
		number(ctx, "cpu-rt-runtime", &r.CPU.RealtimeRuntime, parseInt),
		number(ctx, "cpu-idle", &r.CPU.Idle, parseInt),
		number(ctx, "memory", &r.Memory.Limit, parseSize),
		number(ctx, "memory-swap", &r.Memory.Swap, parseSize),
		number(ctx, "memory-reservation", &r.Memory.Reservation, parseSize),
		number(ctx, "kernel-memory", &r.Memory.Kernel, parseSize), //nolint:staticcheck // deprecated, and so is the flag
		number(ctx, "kernel-memory-tcp", &r.Memory.KernelTCP, parseSize),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// number stores the value of a flag that has one; "" and an absent flag are
// alike, as containerd passes empty ones.
func number[T any](ctx *cli.Context, flag string, dst **T, parse func(string) (T, error)) error {
	s := ctx.String(flag)
	if s == "" {
		return nil
	}
	v, err := parse(s)
	if err != nil {
		return fmt.Errorf("invalid value for %s: %w", flag, err)
	}
	*dst = &v
	return nil
}

func parseUint(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }
func parseInt(s string) (int64, error)   { return strconv.ParseInt(s, 10, 64) }

// parseSize reads bytes, with a suffix such as 512m; -1 is unlimited.
func parseSize(s string) (int64, error) {
	if s == "-1" {
		return -1, nil
	}
	return units.RAMInBytes(s)
}
