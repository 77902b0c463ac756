//go:build k8s

package k8s

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// node is a machine of a cluster, and the cluster's control plane.
type node struct {
	dir     string // configuration, keys and logs
	cache   string // what was built before
	began   time.Time
	daemons []*daemon
	api     *api
	clean   traces // before the first pod
}

const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// startNode returns the node on an error, too, for its logs.
func startNode() (*node, error) {
	n := &node{dir: "/run/sage-k8s", cache: os.Getenv("SAGE_CACHE"), began: time.Now()}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"programs", n.install},
		{"network", n.makeNetwork},
		{"folders", n.makeFolders},
		{"configuration", n.configure},
		{"servers", n.startServers},
		{"images", n.importImages},
		{"API server", n.awaitServer},
		{"kubelet", n.startKubelet},
		{"RuntimeClass", n.makeClass},
		{"what is there before the first pod", n.look},
	} {
		if err := step.do(); err != nil {
			return n, fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("k8s: %5.1f s: %s\n", time.Since(n.began).Seconds(), step.name)
	}
	return n, nil
}

// install puts the programs under test where the README says, and makes sure
// of the others.
func (n *node) install() error {
	runtime := cmp.Or(os.Getenv("SAGE_BIN"), filepath.Join("..", "..", "bin", "sage-runtime"))
	shim := cmp.Or(os.Getenv("SAGE_SHIM"), filepath.Join("..", "..", "bin", "containerd-shim-sage-v2"))
	for name, from := range map[string]string{
		"sage-runtime": runtime, "containerd-shim-sage-v2": shim, "sage-egress": filepath.Join(filepath.Dir(runtime), "sage-egress"),
	} {
		if err := install(from, filepath.Join("/usr/local/bin", name)); err != nil {
			return fmt.Errorf(`%w: run "make build"`, err)
		}
	}
	for _, name := range []string{
		"containerd", "ctr", "containerd-shim-runc-v2", "runc", "cni/bridge", "cni/host-local", "cni/loopback",
		"etcd", "kube-apiserver", "kubelet", "kubectl",
	} {
		if _, err := os.Stat(n.peer(name)); err != nil {
			return fmt.Errorf(`%w: run "make test-k8s", which builds it`, err)
		}
	}
	return nil
}

func install(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o755)
}

func (n *node) peer(name string) string { return filepath.Join(n.cache, "peers", "bin", name) }

// command runs a peer, with the search path of a machine that has it installed.
func (n *node) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, n.peer(name), args...)
	cmd.Dir = n.dir
	cmd.Env = []string{
		"PATH=" + path + ":" + n.peer(""), "HOME=" + n.dir, "KUBECONFIG=" + filepath.Join(n.dir, "kubeconfig"),
		"CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1",
	}
	return cmd
}

// makeNetwork gives the node an address, which the guest has none of.
func (n *node) makeNetwork() error {
	return shell(`ip link add node0 type dummy && ip address add ` + nodeAddress + `/24 dev node0 &&
		ip link set node0 up && ip route add default dev node0 && sysctl -qw net.ipv4.ip_forward=1`)
}

func shell(script string) error {
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// makeFolders keeps the pods' files off the guest's root, which is its memory.
func (n *node) makeFolders() error {
	const kubelet, disk = "/var/lib/kubelet", quotaMount + "/kubelet"
	for _, dir := range []string{n.dir, kubelet, disk, auditDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// kubelet's mounts for pods are to be seen by containerd, as on any host.
	return errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""),
		unix.Mount(disk, kubelet, "", unix.MS_BIND, ""),
	)
}

func (n *node) configure() error {
	if err := errors.Join(n.writeFiles(), writeKeys(n.dir)); err != nil {
		return err
	}
	var err error
	n.api, err = newAPI(filepath.Join(n.dir, "node.crt"))
	return err
}

func (n *node) startServers() error {
	return errors.Join(
		n.startDaemon("etcd", n.etcd()...),
		n.startDaemon("containerd", "--config", filepath.Join(n.dir, "containerd.toml")),
		n.startDaemon("kube-apiserver", n.apiServer()...),
	)
}

func (n *node) awaitServer() error {
	return n.await("readiness of the API server", func() error { return n.api.get("/readyz", nil) })
}

func (n *node) startKubelet() error {
	if err := n.startDaemon("kubelet", n.kubelet()...); err != nil {
		return err
	}
	return n.await("the node to register", func() error { return n.api.get("/api/v1/nodes/"+nodeName, nil) })
}

// daemonWait is how long a server may take to begin: in emulation, on a busy machine.
const daemonWait = 8 * time.Minute

// await fails as soon as a daemon has ended.
func (n *node) await(what string, ok func() error) error {
	var err error
	for end := time.Now().Add(daemonWait); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		if err = ok(); err == nil {
			return nil
		}
		for _, d := range n.daemons {
			if err := d.alive(); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("waited %v for %s: %w", daemonWait, what, err)
}

// makeClass is what an administrator does once for a cluster.
func (n *node) makeClass() error {
	return n.api.post("/apis/node.k8s.io/v1/runtimeclasses", object{
		"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": object{"name": "sage"}, "handler": "sage",
	})
}

func (n *node) look() (err error) {
	n.clean, err = lookAround()
	return err
}

func (n *node) stop() {
	for _, d := range slices.Backward(n.daemons) {
		d.stop()
	}
}

// keepLogs leaves the daemons' logs to the host.
func (n *node) keepLogs() {
	for _, d := range n.daemons {
		if log, err := os.ReadFile(d.log); err == nil {
			_ = os.WriteFile(filepath.Join(os.Getenv("SAGE_VM_OUT"), d.name+".log"), log, 0o644)
		}
	}
}
