package hardening

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/spec"
)

func devices(list ...specs.LinuxDevice) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Linux.Devices = append(s.Linux.Devices, list...) }
}

func rules(list ...specs.LinuxDeviceCgroup) func(*specs.Spec) {
	return func(s *specs.Spec) {
		if s.Linux.Resources == nil {
			s.Linux.Resources = &specs.LinuxResources{}
		}
		s.Linux.Resources.Devices = append(s.Linux.Resources.Devices, list...)
	}
}

func both(steps ...func(*specs.Spec)) func(*specs.Spec) {
	return func(s *specs.Spec) {
		for _, step := range steps {
			step(s)
		}
	}
}

func char(name string, major, minor int64) specs.LinuxDevice {
	return specs.LinuxDevice{Path: name, Type: "c", Major: major, Minor: minor}
}

const standardRules = "deny a *:* rwm, allow c 1:3 rw, allow c 1:5 rw, allow c 1:7 rw, allow c 1:8 rw, allow c 1:9 rw, " +
	"allow c 5:0 rw, allow c 5:2 rw, allow c 136:* rw"

func TestDevices(t *testing.T) {
	gpu := char("/dev/nvidia0", 195, 0)
	privileged := rules(specs.LinuxDeviceCgroup{Allow: true, Access: "rwm"})
	number := func(n int64) *int64 { return &n }
	shown := func(nodes int, want string) func(*testing.T, Result) {
		return func(t *testing.T, r Result) {
			t.Helper()
			if got := len(r.Spec.Linux.Devices); got != nodes {
				t.Errorf("got %d nodes, want %d", got, nodes)
			}
			if got := rulesText(r.Spec.Linux.Resources.Devices); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
	list := func(d spec.Device) func(*spec.Policy) {
		return func(p *spec.Policy) { p.Files.Devices = []spec.Device{d} }
	}
	wide := fs.FileMode(0o4777)
	runCases(t, loose, []outcome{
		{name: "none", check: shown(0, standardRules)},
		{name: "a standard one", bundle: devices(char("/dev/null", 1, 3)), check: shown(1, standardRules)},
		{name: "a standard one, unbuffered", bundle: devices(specs.LinuxDevice{Path: "/dev/null", Type: "u", Major: 1, Minor: 3}), check: shown(1, standardRules)},
		{name: "a standard name, another device", bundle: devices(char("/dev/null", 8, 0)), denied: "linux.devices[0]: saw c 8:0"},
		{name: "a standard device, another name", bundle: devices(char("/dev/extra", 1, 3)), denied: "want one that devices in the host's file lists"},
		{name: "--device, listed", bundle: both(devices(gpu), rules(specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: number(195), Minor: number(0), Access: "rwm"})), check: shown(1, standardRules+", allow c 195:0 rw")},
		{name: "--device, listed, to read", bundle: both(devices(gpu), rules(specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: number(195), Access: "r"})), check: shown(1, standardRules+", allow c 195:0 r")},
		{name: "listed, without a rule", bundle: devices(gpu), check: shown(1, standardRules)},
		{name: "listed by another number", bundle: devices(char("/dev/nvidia0", 195, 1)), denied: "saw c 195:1"},
		{name: "listed as a block device", bundle: devices(specs.LinuxDevice{Path: "/dev/nvidia0", Type: "b", Major: 195}), denied: "saw b 195:0"},
		{name: "listed by another name", bundle: devices(char("/dev/nvidia1", 195, 0)), denied: "saw c 195:0 at \"/dev/nvidia1\""},
		{name: "the host's console", bundle: devices(char("/dev/console", 5, 1)), denied: "saw c 5:1"},
		{name: "a FIFO", bundle: devices(specs.LinuxDevice{Path: "/dev/p", Type: "p"}), denied: "saw p 0:0"},
		{name: "a set-user-ID node", bundle: devices(specs.LinuxDevice{Path: "/dev/null", Type: "c", Major: 1, Minor: 3, FileMode: &wide}), check: func(t *testing.T, r Result) {
			if got := *r.Spec.Linux.Devices[0].FileMode; got != 0o666 {
				t.Errorf("got mode %o, want 666", got)
			}
			if wide != 0o4777 {
				t.Errorf("got the bundle's mode changed to %o", wide)
			}
		}},
		{name: "a rule without a device", bundle: rules(specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: number(42), Access: "rwm"}), check: shown(0, standardRules)},
		{name: "containerd's old rule for tun", bundle: rules(specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: number(10), Minor: number(200), Access: "rwm"}), check: shown(0, standardRules)},
		{name: "--privileged", bundle: both(privileged, devices(char("/dev/mem", 1, 1), char("/dev/kvm", 10, 232), char("/dev/null", 1, 3), gpu)), check: shown(2, standardRules+", allow c 195:0 rw")},
		{name: "tun, listed", policy: list(spec.Device{Path: "/dev/net/tun", Type: "c", Major: 10, Minor: 200}), bundle: devices(char("/dev/net/tun", 10, 200)), denied: "which no container may have"},
		{name: "tun by another name, listed", policy: list(spec.Device{Path: "/dev/x", Type: "c", Major: 10, Minor: 200}), bundle: devices(char("/dev/x", 10, 200)), denied: "which no container may have"},
		{name: "vhost-vdpa, listed", policy: list(spec.Device{Path: "/dev/vhost-vdpa-0", Type: "c", Major: 250}), bundle: devices(char("/dev/vhost-vdpa-0", 250, 0)), denied: "which no container may have"},
		{name: "a place outside /dev, listed", policy: list(spec.Device{Path: "/etc/x", Type: "c", Major: 195}), bundle: devices(char("/etc/x", 195, 0)), denied: "want a place in /dev"},
	})
}

func TestForbiddenDevices(t *testing.T) {
	for name, d := range map[string]spec.Device{
		"fuse": {Path: "/dev/a", Type: "c", Major: 10, Minor: 229}, "kvm": {Path: "/dev/a", Type: "c", Major: 10, Minor: 232},
		"vhost-net": {Path: "/dev/a", Type: "c", Major: 10, Minor: 238}, "mem": {Path: "/dev/a", Type: "c", Major: 1, Minor: 1},
		"kmsg": {Path: "/dev/a", Type: "c", Major: 1, Minor: 11}, "loop": {Path: "/dev/a", Type: "b", Major: 7, Minor: 99},
		"loop-control": {Path: "/dev/a", Type: "c", Major: 10, Minor: 237}, "userfaultfd": {Path: "/dev/a", Type: "c", Major: 10, Minor: 126},
		"device mapper": {Path: "/dev/mapper/control", Type: "c", Major: 10, Minor: 236}, "a mapped device": {Path: "/dev/dm-0", Type: "b", Major: 253},
	} {
		if !forbidden(d) {
			t.Errorf("%s: got it allowed, want it forbidden", name)
		}
	}
	for _, d := range standard {
		if forbidden(d) {
			t.Errorf("%v: got it forbidden, want it allowed", d)
		}
	}
	if strings.Contains(rulesText([]specs.LinuxDeviceCgroup{allow(terminals[1], "rw")}), "-1") {
		t.Error("got -1 for any minor number, want *")
	}
}
