package runtime

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"
	devices "github.com/opencontainers/cgroups/devices/config"

	"github.com/sage-sandbox/sage/internal/sys"
)

// onlyDevices takes away the rules that libcontainer adds behind the first n,
// the bundle's as hardened: the tun device for one. What is left of its own lets
// device nodes be made but not opened, which it needs for the container's /dev;
// the second seccomp layer keeps the program from making any.
func onlyDevices(r *cgroups.Resources, n int) {
	own := slices.DeleteFunc(slices.Clone(r.Devices[n:]), func(rule *devices.Rule) bool { return rule.Permissions != "m" })
	r.Devices = append(slices.Clone(r.Devices[:n]), own...)
}

// checkDevices compares what the kernel lists for a container's cgroup with the
// rules. cgroup v2 has a program in place of the list, which cannot be read.
func checkDevices(paths map[string]string, rules []*devices.Rule) error {
	dir, ok := paths["devices"]
	if !ok {
		return nil
	}
	data, err := sys.ReadFile(filepath.Join(dir, "devices.list"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if !slices.ContainsFunc(rules, func(rule *devices.Rule) bool { return permits(rule, line) }) {
			return fmt.Errorf("devices.list: saw %q, want only what the policy has", line)
		}
	}
	return nil
}

// permits tells whether a line of devices.list, such as "c 1:3 rw", is no more
// than the rule allows.
func permits(rule *devices.Rule, line string) bool {
	device, access, _ := strings.Cut(rule.CgroupString(), ":")
	minor, access, _ := strings.Cut(access, " ")
	listed, has := cutLast(line)
	return rule.Allow && listed == device+":"+minor && strings.Trim(has, access) == ""
}

func cutLast(line string) (before, after string) {
	i := strings.LastIndexByte(line, ' ')
	return line[:max(i, 0)], line[i+1:]
}
