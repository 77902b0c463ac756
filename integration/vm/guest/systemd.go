package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/vm/plan"
)

// Target is what the host tells systemd to start, on the kernel's command line.
const Target = "sage-vm.target"

const systemd = "/lib/systemd/systemd"

// The host's own services are none of ours, and some would do harm: the one that
// cleans /tmp at boot takes away what the host has put there for the jobs. So
// nothing is started that is not named here, and the bus, through which the
// systemd cgroup driver speaks, does not wait for the rest. All that a boot would
// mount and load is there before.
var units = map[string]string{
	Target: `[Unit]
Description=jobs of the sage virtual machine
Requires=sage-vm.service
AllowIsolate=yes
`,
	"dbus.socket.d/sage-vm.conf":  "[Unit]\nDefaultDependencies=no\n",
	"dbus.service.d/sage-vm.conf": "[Unit]\nDefaultDependencies=no\n",
	// A container killed for memory must not take the jobs with it, and a fork
	// bomb must meet the container's own limit first.
	"sage-vm.service": `[Unit]
DefaultDependencies=no
Requires=dbus.socket dbus.service
After=dbus.socket dbus.service
[Service]
Type=exec
ExecStart=%s ` + Stage + `
StandardInput=null
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
OOMPolicy=continue
TasksMax=infinity
TimeoutStartSec=infinity
LimitNOFILE=1048576
Delegate=yes
`,
}

// execSystemd replaces the initramfs's first process.
func execSystemd(p plan.Plan) error {
	if _, err := os.Stat(systemd); err != nil {
		return fmt.Errorf("a guest with systemd needs the package systemd on the host: %w", err)
	}
	// /run is there already and systemd leaves it as it is.
	for name, text := range units {
		path := filepath.Join("/run/systemd/system", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "%s", p.Program)), 0o644); err != nil {
			return err
		}
	}
	return unix.Exec(systemd, []string{systemd}, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"})
}
