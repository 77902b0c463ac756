package harness

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// BusyboxImage is the image that Docker has.
const BusyboxImage = "sage.test/busybox:1"

// DockerOptions is how a test's Docker differs from Docker's defaults.
type DockerOptions struct {
	// Dir holds all its data and may not exist: on a mount with project quotas,
	// so do the upper layers of its containers.
	Dir string
	// Overlay2 keeps images the way that Docker before 29 did, in its own overlay2
	// storage and not in containerd's snapshotter.
	Overlay2 bool
	// CgroupDriver is cgroupfs (default) or systemd.
	CgroupDriver string
	// HostFile is the path of the host configuration that its sage uses; empty
	// for the machine's own.
	HostFile string
	// Config has more keys of daemon.json.
	Config map[string]any
}

// Docker is a dockerd with a containerd of its own. Runtimes: sage (the runc
// shim with sage-runtime), sage-shim (sage's own shim), runc.
type Docker struct {
	Daemon     *Daemon
	Containerd *Containerd
	dir        string
}

// StartDocker starts both daemons for a test and imports BusyboxImage. It has
// no bridge, so that it needs no iptables: containers have the networks none and
// host. Config may name one.
func StartDocker(tb testing.TB, o DockerOptions) *Docker {
	tb.Helper()
	tb.Cleanup(removeParent)
	c := StartContainerd(tb, ContainerdOptions{Dir: filepath.Join(o.Dir, "containerd"), HostFile: o.HostFile})
	d := &Docker{Containerd: c, dir: o.Dir}
	writeJSON(tb, d.configFile(), d.config(tb, o))
	d.Daemon = startDaemon(tb, d.daemon(tb), filepath.Join(o.Dir, "dockerd.log"), d.answers(tb))
	tb.Cleanup(func() { d.removeAll(tb) })
	archive, err := busyboxTar(tb)
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
	d.Must(tb, "import", "--change", `CMD ["sh"]`, archive, BusyboxImage)
	return d
}

// removeParent removes the cgroups that containers were in; one that is in use
// stays, and is told by Main.
func removeParent() {
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		dirs, _ := filepath.Glob(pattern + Mark())
		for _, dir := range dirs {
			_ = os.Remove(dir)
		}
	}
}

func (d *Docker) configFile() string { return filepath.Join(d.dir, "daemon.json") }

func (d *Docker) daemon(tb testing.TB) *exec.Cmd {
	tb.Helper()
	return engineCommand(tb, d.dir, "dockerd", "--config-file", d.configFile())
}

func (d *Docker) answers(tb testing.TB) func() error {
	return func() error {
		_, err := Output(d.Command(tb, "version"))
		return err
	}
}

// Restart ends dockerd as a crash would, and starts it again on what it has.
func (d *Docker) Restart(tb testing.TB) {
	tb.Helper()
	d.Daemon.Kill()
	d.Daemon.run(tb, d.daemon(tb), d.answers(tb))
}

func (d *Docker) config(tb testing.TB, o DockerOptions) map[string]any {
	tb.Helper()
	driver := o.CgroupDriver
	if driver == "" {
		driver = "cgroupfs"
	}
	runtime := sageWrapper(tb, o.Dir, o.HostFile)
	config := map[string]any{
		"containerd": d.Containerd.Socket,
		"data-root":  filepath.Join(o.Dir, "data"),
		"exec-root":  filepath.Join(o.Dir, "exec"),
		"pidfile":    filepath.Join(o.Dir, "docker.pid"),
		"hosts":      []string{d.host()},
		"bridge":     "none", "iptables": false, "ip6tables": false,
		"exec-opts": []string{"native.cgroupdriver=" + driver},
		"features":  map[string]bool{"containerd-snapshotter": !o.Overlay2},
		"runtimes": map[string]any{
			"sage": map[string]any{"path": runtime},
			"sage-shim": map[string]any{
				"runtimeType": "io.containerd.sage.v2",
				"options":     map[string]any{"TypeUrl": "containerd.runc.v1.Options", "ConfigPath": shimOptions(tb, o.Dir, runtime)},
			},
		},
		"shutdown-timeout": 10,
	}
	if driver == "cgroupfs" {
		config["cgroup-parent"] = "/" + Mark()
	}
	maps.Copy(config, o.Config)
	return config
}

// shimOptions is the file by which Docker tells a foreign shim its binary; it
// drops BinaryName itself without a word.
func shimOptions(tb testing.TB, dir, runtime string) string {
	tb.Helper()
	path := filepath.Join(dir, "shim.toml")
	if err := os.WriteFile(path, []byte("BinaryName = \""+runtime+"\"\n"), 0o600); err != nil {
		tb.Fatalf("harness: %v", err)
	}
	return path
}

// sageWrapper is sage-runtime, or a script that gives it a configuration: an
// engine has no way to pass one that reaches its shim, too.
func sageWrapper(tb testing.TB, dir, hostFile string) string {
	tb.Helper()
	if hostFile == "" {
		return Sage(tb)
	}
	path := filepath.Join(dir, "sage-runtime")
	script := "#!/bin/sh\nexec " + Sage(tb) + " --config " + hostFile + " \"$@\"\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		tb.Fatalf("harness: %v", err)
	}
	return path
}

func (d *Docker) host() string { return "unix://" + filepath.Join(d.dir, "docker.sock") }

// Command is the Docker client.
func (d *Docker) Command(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	return engineCommand(tb, d.dir, "docker", append([]string{"--host", d.host()}, args...)...)
}

// Must runs the client and returns what it printed, without the last newline.
func (d *Docker) Must(tb testing.TB, args ...string) string {
	tb.Helper()
	out, err := Output(d.Command(tb, args...))
	if err != nil {
		tb.Fatalf("docker %s: %v; the end of its log:\n%s", args[0], err, d.Daemon.Tail(10))
	}
	return strings.TrimSpace(out)
}

// removeAll leaves no container to a daemon that is about to end.
func (d *Docker) removeAll(tb testing.TB) {
	tb.Helper()
	out, err := Output(d.Command(tb, "ps", "--all", "--quiet"))
	if ids := strings.Fields(out); err == nil && len(ids) > 0 {
		_, err = Output(d.Command(tb, append([]string{"rm", "--force", "--volumes"}, ids...)...))
	}
	if err != nil {
		tb.Errorf("harness: remove containers: %v", err)
	}
}

func writeJSON(tb testing.TB, path string, v any) {
	tb.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		tb.Fatalf("harness: %v", err)
	}
}
