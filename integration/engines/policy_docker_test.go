//go:build engines

package engines

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"github.com/sage-sandbox/sage/integration/victim/expect"
)

// flagCase is something that a user of Docker asks for. It is refused in words
// that name the reason, or the container runs and its victim gets no further
// than without the flag.
type flagCase struct {
	flags []string
	// says are phrases of the refusal, none where it has to run.
	says []string
	// before prepares the host for the flag.
	before func(*testing.T)
}

var flagCases = []flagCase{
	{flags: nil},
	{flags: []string{"--privileged"}},
	{flags: []string{"--cap-add=ALL"}},
	{flags: []string{"--cap-add=SYS_ADMIN", "--cap-add=NET_ADMIN", "--cap-add=SYS_PTRACE"}},
	{flags: []string{"--security-opt=systempaths=unconfined"}},
	{flags: []string{"--security-opt=apparmor=unconfined"}},
	{flags: []string{"--security-opt=no-new-privileges=false"}},
	{flags: []string{"--security-opt=label=disable"}},
	{flags: []string{"--userns=host"}},
	{flags: []string{"--cgroupns=host"}},
	{flags: []string{"--pid=host"}, says: []string{"pid namespace"}},
	{flags: []string{"--network=host"}, says: []string{"network namespace"}},
	{flags: []string{"--ipc=none"}},
	{flags: []string{"--ipc=shareable"}},
	{flags: []string{"--ipc=host"}, says: []string{"ipc namespace"}},
	{flags: []string{"--uts=host"}, says: []string{"uts namespace"}},
	{flags: []string{"--volume=DOCKER_SOCKET:/var/run/docker.sock"}, says: []string{"mounts[", "socket"}},
	{flags: []string{"--volume=/:/host"}, says: []string{"mounts["}},
	{flags: []string{"--volume=/:/host:ro"}, says: []string{"mounts["}},
	{flags: []string{"--volume=/proc:/x"}, says: []string{"mounts["}},
	{flags: []string{"--volume=/sys:/sys"}, says: []string{"mounts["}},
	{flags: []string{"--volume=/dev:/dev"}, says: []string{"mounts["}},
	{flags: []string{"--volume=/run:/x"}, says: []string{"mounts["}},
	{flags: []string{"--volume=/etc/shadow:/x:ro"}, says: []string{"mounts["}},
	{flags: []string{"--device=/dev/kmsg"}, says: []string{"linux.devices"}},
	{flags: []string{"--device=/dev/fuse"}, says: []string{"linux.devices"}},
	{flags: []string{"--device=/dev/net/tun"}, says: []string{"linux.devices"}},
	{flags: []string{"--device=/dev/loop0:/dev/null0"}, says: []string{"linux.devices"}},
	{flags: []string{"--device-cgroup-rule=a *:* rwm"}},
	{flags: []string{"--sysctl=net.ipv4.conf.all.route_localnet=1"}, says: []string{"linux.sysctl"}},
	{flags: []string{"--sysctl=net.ipv4.ip_forward=1"}, says: []string{"linux.sysctl"}},
	{flags: []string{"--ulimit=core=-1"}},
	{flags: []string{"--ulimit=nofile=1048576:1048576"}},
	{flags: []string{"--oom-score-adj=-500"}}, // cut to 0
	{flags: []string{"--group-add=0"}},
	{flags: []string{"--user=1001:1001", "--group-add=0"}, says: []string{"additionalGids"}},
	{flags: []string{"--init"}, says: []string{"init"}, before: putInit},
	{flags: []string{"--memory=100g"}, says: []string{"memory"}},
	{flags: []string{"--pids-limit=-1"}},
	{flags: []string{"--cgroup-parent=/"}},
	{flags: []string{"--env=_LIBCONTAINER_INITPIPE=0"}, says: []string{"_LIBCONTAINER_"}},
	{flags: []string{"--annotation=sage.sandbox.profile=compat"}, says: []string{"profile"}},
	{flags: []string{"--annotation=sage.sandbox.process.capabilities=[\"SYS_ADMIN\"]"}, says: []string{"capabilities"}},
	{flags: []string{"--label=sage.sandbox.profile=compat"}},
	{flags: []string{"--shm-size=1t"}},
	{flags: []string{"--tmpfs=/x:exec,dev,suid"}},
	{flags: []string{"--read-only=false"}},
	{flags: []string{"--workdir=/proc/self/fd/7"}, says: []string{"cwd"}},
}

// TestPolicyDockerFlags runs the victim with each flag, in a container without a
// profile of Docker's: what is denied then, sage denies.
//
// Proves: E-028, S-105.
func TestPolicyDockerFlags(t *testing.T) {
	dockerVictim(t)
	t.Cleanup(func() { forgetHostNetwork(t) })
	for _, c := range []struct {
		name    string
		runtime string
		profile expect.Profile
	}{
		{"sage", softSage.docker(), expect.Sage},
		{"agent", softAgent.docker(), expect.Agent},
		{"service by our shim", softService.dockerShim(), expect.Service},
	} {
		t.Run(c.name, func(t *testing.T) {
			var table strings.Builder
			w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
			for _, f := range flagCases {
				t.Run(strings.Join(f.flags, " "), func(t *testing.T) {
					fmt.Fprintf(w, "docker run %s\t%s\n", strings.Join(f.flags, " "), f.try(t, newDocker(t, c.runtime), c.profile))
				})
			}
			_ = w.Flush()
			t.Logf("what came of each\n%s", table.String())
		})
	}
}

// try gives one line for the table.
func (f flagCase) try(t *testing.T, d docker, p expect.Profile) string {
	t.Helper()
	if f.before != nil {
		f.before(t)
	}
	states := statesOfContainers()
	flags := slices.Concat([]string{"--security-opt=seccomp=unconfined", "--tmpfs=/tmp:mode=1777,exec"}, f.flags)
	for i := range flags {
		flags[i] = strings.ReplaceAll(flags[i], "DOCKER_SOCKET", theRing.dockerSocket())
	}
	if !slices.ContainsFunc(flags, func(flag string) bool { return strings.HasPrefix(flag, "--network=") }) {
		flags = append(flags, "--network=none")
	}
	r := d.try(t, slices.Concat([]string{"run", "--rm", "--runtime", d.runtime}, flags, []string{victimImage, expect.Program, "init"})...)
	if now := statesOfContainers(); !slices.Equal(states, now) {
		t.Errorf("state of containers: got %v, want %v as before", now, states)
	}
	if len(f.says) == 0 {
		wantConfined(t, p, r, true)
		return "runs, confined"
	}
	r.want(t, r.code, append(f.says, "[sandbox.")...)
	if r.code == 0 {
		t.Errorf("exit code: got 0, want a refusal")
	}
	return "refused: " + firstLine(r.errs)
}

// hostNetwork is Docker's own handle on the host's network namespace, which it
// keeps once a container was to have that.
func hostNetwork() string { return theRing.path("docker", "exec", "netns", "default") }

func statesOfContainers() []string {
	return slices.DeleteFunc(runtimeStates(), func(name string) bool { return name == hostNetwork() })
}

// forgetHostNetwork removes it, for it outlives the daemon.
func forgetHostNetwork(t *testing.T) {
	t.Helper()
	if err := unix.Unmount(hostNetwork(), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) {
		t.Error(err)
	}
	if err := os.Remove(hostNetwork()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// putInit gives dockerd an init program to offer. It is never run.
func putInit(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(theRing.dir, "bin", "docker-init"), []byte("#!/bin/sh\nexec \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestPolicyDockerExec: what exec can ask for adds nothing either.
//
// Proves: S-020.
func TestPolicyDockerExec(t *testing.T) {
	dockerVictim(t)
	for _, c := range []struct {
		runtime string
		profile expect.Profile
	}{{softSage.docker(), expect.Sage}, {softAgent.dockerShim(), expect.Agent}} {
		t.Run(string(c.profile), func(t *testing.T) {
			d := newDocker(t, c.runtime)
			id := d.detached(t, "--security-opt=seccomp=unconfined", "--tmpfs=/tmp:mode=1777,exec", victimImage, "sleep", "1000")
			for _, flags := range [][]string{nil, {"--privileged"}, {"--user=0"}, {"--privileged", "--user=0:0"}} {
				t.Run(strings.Join(flags, " "), func(t *testing.T) {
					wantConfined(t, c.profile, d.try(t, slices.Concat([]string{"exec"}, flags, []string{id, expect.Program, "init"})...), true)
				})
			}
			d.try(t, "exec", "--env=_LIBCONTAINER_INITPIPE=0", id, "true").want(t, 128, "_LIBCONTAINER_", "[sandbox.permission_denied]")
			d.try(t, "exec", "--workdir=/proc/self/fd/7", id, "true").want(t, 128, "cwd")
			d.try(t, "update", "--memory=90g", "--memory-swap=90g", id).want(t, 1)
		})
	}
}
