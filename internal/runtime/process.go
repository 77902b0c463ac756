package runtime

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/opencontainers/runc/libcontainer"
	"github.com/opencontainers/runc/libcontainer/configs"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/opencontainers/selinux/go-selinux"
	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"
)

// newProcess states an OCI process in libcontainer's terms.
func newProcess(p *specs.Process) (*libcontainer.Process, error) {
	if p.SelinuxLabel != "" && !selinux.GetEnabled() {
		return nil, errors.New("selinux label is specified in config, but selinux is disabled or not supported")
	}
	limits, err := rlimits(p.Rlimits)
	if err != nil {
		return nil, err
	}
	affinity, err := configs.ConvertCPUAffinity(p.ExecCPUAffinity)
	if err != nil {
		return nil, err
	}
	out := &libcontainer.Process{
		Args: p.Args, Env: p.Env, Cwd: p.Cwd,
		UID: int(p.User.UID), GID: int(p.User.GID), AdditionalGroups: groups(p.User.AdditionalGids),
		Capabilities: capabilitySets(p.Capabilities), NoNewPrivileges: &p.NoNewPrivileges,
		AppArmorProfile: p.ApparmorProfile, Label: p.SelinuxLabel,
		Rlimits: limits, Scheduler: p.Scheduler, IOPriority: p.IOPriority, CPUAffinity: affinity,
		LogLevel: strconv.Itoa(int(logrus.GetLevel())),
	}
	if size := p.ConsoleSize; size != nil {
		// Both are 16 bits in the kernel's struct winsize.
		out.ConsoleWidth, out.ConsoleHeight = uint16(size.Width), uint16(size.Height)
	}
	return out, nil
}

func groups(gids []uint32) []int {
	var out []int
	for _, gid := range gids {
		out = append(out, int(gid))
	}
	return out
}

func capabilitySets(c *specs.LinuxCapabilities) *configs.Capabilities {
	if c == nil {
		return nil
	}
	return &configs.Capabilities{
		Bounding: c.Bounding, Effective: c.Effective, Inheritable: c.Inheritable,
		Permitted: c.Permitted, Ambient: c.Ambient,
	}
}

// rlimitNumbers are the names of setrlimit(2).
var rlimitNumbers = map[string]int{
	"RLIMIT_AS": unix.RLIMIT_AS, "RLIMIT_CORE": unix.RLIMIT_CORE, "RLIMIT_CPU": unix.RLIMIT_CPU,
	"RLIMIT_DATA": unix.RLIMIT_DATA, "RLIMIT_FSIZE": unix.RLIMIT_FSIZE, "RLIMIT_LOCKS": unix.RLIMIT_LOCKS,
	"RLIMIT_MEMLOCK": unix.RLIMIT_MEMLOCK, "RLIMIT_MSGQUEUE": unix.RLIMIT_MSGQUEUE, "RLIMIT_NICE": unix.RLIMIT_NICE,
	"RLIMIT_NOFILE": unix.RLIMIT_NOFILE, "RLIMIT_NPROC": unix.RLIMIT_NPROC, "RLIMIT_RSS": unix.RLIMIT_RSS,
	"RLIMIT_RTPRIO": unix.RLIMIT_RTPRIO, "RLIMIT_RTTIME": unix.RLIMIT_RTTIME, "RLIMIT_SIGPENDING": unix.RLIMIT_SIGPENDING,
	"RLIMIT_STACK": unix.RLIMIT_STACK,
}

func rlimits(in []specs.POSIXRlimit) ([]configs.Rlimit, error) {
	var out []configs.Rlimit
	for _, l := range in {
		number, ok := rlimitNumbers[l.Type]
		if !ok {
			return nil, fmt.Errorf("process.rlimits: wrong rlimit value: %s", l.Type)
		}
		out = append(out, configs.Rlimit{Type: number, Hard: l.Hard, Soft: l.Soft})
	}
	return out, nil
}

// initFiles is how many descriptors libcontainer's init has open when the
// limits of the bundle begin to hold for it, a console and a pidfd socket
// included. With fewer its Go runtime cannot start, and dies with a dump of its
// goroutines in place of an error.
const initFiles = 18

func checkOpenFiles(p *libcontainer.Process) error {
	least := uint64(initFiles + len(p.ExtraFiles))
	for _, l := range p.Rlimits {
		// A soft limit above the hard one is refused by the kernel, in its words.
		if l.Type == unix.RLIMIT_NOFILE && l.Soft < least && l.Soft <= l.Hard {
			return fmt.Errorf("process.rlimits: RLIMIT_NOFILE: saw a soft limit of %d, want at least %d, which init itself needs", l.Soft, least)
		}
	}
	return nil
}
