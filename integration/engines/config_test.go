//go:build engines

package engines

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/template"
)

func (r *ring) containerdSocket() string { return r.path("containerd.sock") }
func (r *ring) dockerSocket() string     { return r.path("docker.sock") }

// containerdConfig has one CRI handler per way that CRI can describe sage.
// The runc shim takes options of its own type; for a foreign runtime_type CRI
// sends runtimeoptions, with the options table as ConfigBody when there is one.
// Pods ask for an OOM score below the daemon's, which needs CAP_SYS_RESOURCE;
// restrict_oom_score_adj lets the ring run where root has not got it.
var containerdConfig = template.Must(template.New("containerd").Parse(`version = 3
root = "{{.Dir}}/containerd/root"
state = "{{.Dir}}/containerd/state"
[grpc]
address = "{{.Socket}}"
[plugins."io.containerd.internal.v1.opt"]
path = "{{.Dir}}/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{{.Pause}}"
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{{.CNI}}"]
conf_dir = "{{.Dir}}/cni-cri"
[plugins."io.containerd.cri.v1.runtime".containerd]
default_runtime_name = "sage"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.sage]
runtime_type = "io.containerd.sage.v2"
pod_annotations = ["sage.sandbox.*"]
container_annotations = ["sage.sandbox.*"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.sage-options]
runtime_type = "io.containerd.sage.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.sage-options.options]
BinaryName = "{{.Runtime}}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.sage-binary]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.sage-binary.options]
BinaryName = "{{.Runtime}}"
{{range .HostFiles}}[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{{.CRIShim}}]
runtime_type = "io.containerd.sage.v2"
pod_annotations = ["sage.sandbox.*"]
container_annotations = ["sage.sandbox.*"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{{.CRIShim}}.options]
BinaryName = "{{.Wrapper}}"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{{.CRI}}]
runtime_type = "io.containerd.runc.v2"
pod_annotations = ["sage.sandbox.*"]
container_annotations = ["sage.sandbox.*"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{{.CRI}}.options]
BinaryName = "{{.Wrapper}}"
{{end}}`))

func (r *ring) writeContainerdConfig(path string) error {
	var text strings.Builder
	type handler struct{ CRI, CRIShim, Wrapper string }
	var handlers []handler
	for _, h := range allHostFiles() {
		handlers = append(handlers, handler{h.cri(), h.criShim(), h.wrapper()})
	}
	err := containerdConfig.Execute(&text, map[string]any{
		"Dir": r.dir, "Socket": r.containerdSocket(), "CNI": r.cniDir(),
		"Pause": pauseImage, "Runtime": r.runtimeBinary(), "HostFiles": handlers,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o600)
}

func (r *ring) startContainerd() (*daemon, error) {
	if err := r.install(); err != nil {
		return nil, err
	}
	if err := r.writeContainerdConfig(r.path("containerd.toml")); err != nil {
		return nil, err
	}
	// Made by containerd it would be closed to a container's own users.
	if err := os.Mkdir(r.path("containerd"), 0o711); err != nil {
		return nil, err
	}
	d, err := r.runContainerd()
	if err != nil {
		return d, err
	}
	return d, r.importImages()
}

func (r *ring) runContainerd() (*daemon, error) {
	ready := r.program("ctr", "--address", r.containerdSocket(), "version")
	return r.startDaemon("containerd", ready, "--config", r.path("containerd.toml"))
}

// killContainerd takes it away in an instant and starts another on its data.
func (r *ring) killContainerd() error {
	r.killDaemons("containerd")
	_, err := r.runContainerd()
	return err
}

func (r *ring) killDaemons(name string) {
	for _, d := range r.running {
		if filepath.Base(d.cmd.Path) == name && d.alive() {
			_ = d.cmd.Process.Kill()
			<-d.ended
		}
	}
}

// dockerRuntimes are all the forms in which a daemon.json can name sage. With no
// host file named, the one of the capsule holds.
func (r *ring) dockerRuntimes() map[string]any {
	type options map[string]any
	return map[string]any{
		"sage":      options{"path": r.runtimeBinary()},
		"sage-args": options{"path": r.runtimeBinary(), "runtimeArgs": []string{"--debug"}},
		"sage-shim": options{"runtimeType": "io.containerd.sage.v2"},
		"sage-runc-shim": options{
			"runtimeType": "io.containerd.runc.v2",
			"options":     options{"BinaryName": r.runtimeBinary()},
		},
		// Docker passes only TypeUrl, ConfigPath and ConfigBody to a foreign
		// shim; it drops BinaryName without a word.
		"sage-shim-binary": options{
			"runtimeType": "io.containerd.sage.v2",
			"options":     options{"BinaryName": r.runtimeBinary()},
		},
		"sage-shim-file": options{
			"runtimeType": "io.containerd.sage.v2",
			"options": options{
				"TypeUrl":    "containerd.runc.v1.Options",
				"ConfigPath": r.path("shim.toml"),
			},
		},
	}
}

// allRuntimes has the runtimes of every host file too.
func (r *ring) allRuntimes() map[string]any {
	all := r.dockerRuntimes()
	for _, h := range allHostFiles() {
		maps.Copy(all, h.dockerRuntimes())
	}
	return all
}

// dockerConfig is the content of daemon.json.
func (r *ring) dockerConfig() map[string]any {
	return map[string]any{
		"containerd": r.containerdSocket(),
		"data-root":  r.path("docker", "root"),
		"exec-root":  r.path("docker", "exec"),
		"pidfile":    r.path("docker.pid"),
		"hosts":      []string{"unix://" + r.dockerSocket()},
		"bip":        "10.213.0.1/24",
		// Docker's own default would put containers in /docker, next to those
		// of an engine that the machine really uses.
		"cgroup-parent":    "/" + r.name,
		"exec-opts":        []string{"native.cgroupdriver=cgroupfs"},
		"runtimes":         r.allRuntimes(),
		"shutdown-timeout": 10,
	}
}

func (r *ring) dockerConfigFile() string { return r.path("docker.json") }

func (r *ring) writeDockerConfig(config map[string]any) error {
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(r.dockerConfigFile(), text, 0o600)
}

func (r *ring) startDockerd() (*daemon, error) {
	if _, err := r.containerd(); err != nil {
		return nil, err
	}
	shim := "BinaryName = \"" + r.runtimeBinary() + "\"\n"
	if err := os.WriteFile(r.path("shim.toml"), []byte(shim), 0o600); err != nil {
		return nil, err
	}
	if err := r.writeDockerConfig(r.dockerConfig()); err != nil {
		return nil, err
	}
	d, err := r.runDockerd()
	if err != nil {
		return d, err
	}
	return d, r.importDockerImage()
}

func (r *ring) runDockerd() (*daemon, error) {
	ready := r.program("docker", "--host", "unix://"+r.dockerSocket(), "version")
	return r.startDaemon("dockerd", ready, "--config-file", r.dockerConfigFile())
}

// killDockerd takes it away in an instant and starts another on its data.
func (r *ring) killDockerd() error {
	r.killDaemons("dockerd")
	_, err := r.runDockerd()
	return err
}

// configureDocker has dockerd read other values of some keys, until the test is
// over. Docker applies those that it can apply without a restart.
func configureDocker(t *testing.T, keys map[string]any) {
	t.Helper()
	needDockerd(t)
	config := theRing.dockerConfig()
	maps.Copy(config, keys)
	reloadDocker(t, config)
	t.Cleanup(func() { reloadDocker(t, theRing.dockerConfig()) })
}

func reloadDocker(t *testing.T, config map[string]any) {
	t.Helper()
	if err := theRing.writeDockerConfig(config); err != nil {
		t.Fatal(err)
	}
	for _, d := range theRing.running {
		if filepath.Base(d.cmd.Path) != "dockerd" || !d.alive() {
			continue
		}
		const done = "Reloaded configuration"
		before := len(d.grep(done))
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "dockerd has read its configuration", "true", func() string { return fmt.Sprint(len(d.grep(done)) > before) })
	}
}
