//go:build engines

package engines

import (
	"strings"
	"testing"
)

// docker is the Docker client with one of the daemon's runtimes.
type docker struct {
	client
	runtime string
}

func newDocker(t *testing.T, runtime string) docker {
	t.Helper()
	needDockerd(t)
	return docker{client{"docker", []string{"--host", "unix://" + theRing.dockerSocket()}}, runtime}
}

// dockerCases is what holds for every way of giving sage to Docker.
var dockerCases = []struct {
	name string
	run  func(*testing.T, docker)
}{
	{"exit codes", dockerExitCodes},
	{"options", dockerOptions},
	{"stdin", dockerStdin},
	{"terminal", dockerTerminal},
	{"exec", dockerExec},
	{"exec on a terminal", dockerExecTerminal},
	{"exec detached", dockerExecDetached},
	{"init dies during exec", dockerInitDiesDuringExec},
	{"logs", dockerLogs},
	{"attach", dockerAttach},
	{"stop with a handler", dockerStopHandler},
	{"stop without a handler", dockerStopForced},
	{"stop signal", dockerStopSignal},
	{"kill", dockerKill},
	{"restart policy", dockerRestartPolicy},
	{"restart and start", dockerRestart},
	{"pause", dockerPause},
	{"update", dockerUpdate},
	{"out of memory", dockerOutOfMemory},
	{"top", dockerTop},
	{"stats", dockerStats},
	{"copy", dockerCopy},
	{"health", dockerHealth},
	{"events", dockerEvents},
	{"shared namespaces", dockerSharedNamespaces},
	{"bridge and published port", dockerNetwork},
}

// The two ways that Docker offers get every case: the runc shim with our
// binary, and our shim.
func TestDocker(t *testing.T) {
	for _, runtime := range []string{"sage", "sage-shim"} {
		t.Run(runtime, func(t *testing.T) {
			d := newDocker(t, runtime)
			t.Run("cases", func(t *testing.T) { dockerAll(t, d) })
			t.Run("fifty at once", func(t *testing.T) { dockerFifty(t, d) })
		})
	}
}

func dockerAll(t *testing.T, d docker) {
	for _, c := range dockerCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, d)
		})
	}
}

// The other spellings of the same two ways need to start a container and enter
// it, no more.
func TestDockerForms(t *testing.T) {
	for _, runtime := range []string{
		"sage-args", "sage-runc-shim", "sage-shim-binary", "sage-shim-file", "io.containerd.sage.v2",
	} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			d := newDocker(t, runtime)
			d.run(t, busybox, "sh", "-c", "echo form; exit 3").want(t, 3, "form")
			id := d.idle(t)
			d.try(t, "exec", id, "sh", "-c", "echo entered; exit 4").want(t, 4, "entered")
		})
	}
}

// run is "docker run --rm" in the foreground.
func (d docker) run(t *testing.T, args ...string) result {
	t.Helper()
	return d.try(t, d.runArgs(args...)...)
}

func (d docker) runArgs(args ...string) []string {
	return append([]string{"run", "--rm", "--network=none", "--runtime", d.runtime}, args...)
}

// detached starts a container in the background, removes it with the test,
// and gives its full id.
func (d docker) detached(t *testing.T, args ...string) string {
	t.Helper()
	all := append([]string{"run", "--detach", "--network=none", "--runtime", d.runtime}, args...)
	id := d.must(t, all...)
	t.Cleanup(func() { d.quietly("rm", "--force", "--volumes", id) })
	return id
}

// idle is a container that only waits, and ends at once when told to.
func (d docker) idle(t *testing.T, flags ...string) string {
	t.Helper()
	return d.detached(t, append(flags, busybox, "sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")...)
}

// inspect gives one field of a container.
func (d docker) inspect(t *testing.T, id, field string) string {
	t.Helper()
	return d.must(t, "inspect", "--format", "{{"+field+"}}", id)
}

func (d docker) awaitField(t *testing.T, id, field, want string) {
	t.Helper()
	eventually(t, field, want, func() string { return d.inspect(t, id, field) })
}

func (d docker) awaitLog(t *testing.T, id, phrase string) {
	t.Helper()
	eventually(t, "log holds "+phrase, "yes", func() string {
		r := d.try(t, "logs", id)
		if strings.Contains(r.out+r.errs, phrase) {
			return "yes"
		}
		return r.out + r.errs
	})
}
