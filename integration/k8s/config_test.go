//go:build k8s

package k8s

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const (
	nodeName    = "node"
	nodeAddress = "10.77.0.1" // on a dummy link: the guest has no network card
	quotaMount  = "/srv/sage-xfs"
	auditDir    = "/var/log/sage"

	busybox    = "sage.test/busybox:1"
	pauseImage = "sage.test/pause:1"
	outsideIP  = "198.51.100.7"  // of everything that is outside of the cluster (RFC 5737)
	token      = "sage-k8s-ring" // of a cluster that lives for minutes, on no network
)

// files are the node's configuration. As much as can be is as the README says
// for a node of one's own; @DIR@ and @CNI@ are filled in.
var files = map[string]string{
	"/etc/sage/config.yaml": `version: 1
linux_quota_mount: ` + quotaMount + `
quota: {project_ids: 100000-199999}
audit_dir: ` + auditDir + `
shared_namespaces: [network, ipc, uts]
egress: {nameservers: ["` + outsideIP + `:53"], reachable: [` + outsideIP + `]}
profiles:
  agent:
    defaults: {resources: {memory_mb: 256}}
    limits: {resources: {memory_mb: 256}}
  web:
    extends: agent
    defaults: {network: {mode: unrestricted, listen: any, deny_private_networks: false}}
    limits: {network: {modes: [none, unrestricted]}}
`,

	// oom_score is what the unit that containerd is released with sets, and what
	// makes kubelet's wishes for its pods possible.
	"@DIR@/containerd.toml": `version = 3
root = "` + quotaMount + `/containerd"
oom_score = -999
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "` + pauseImage + `"
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["@CNI@"]
conf_dir = "/etc/cni/net.d"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.sage]
runtime_type = "io.containerd.sage.v2"
pod_annotations = ["sage.sandbox.*"]
container_annotations = ["sage.sandbox.*"]
`,

	"/etc/cni/net.d/10-pods.conflist": `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`,

	// No cloud, no volumes to attach, no rules of iptables: what is left is what
	// every kubelet does for a pod.
	"@DIR@/kubelet.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
tlsCertFile: @DIR@/node.crt
tlsPrivateKeyFile: @DIR@/node.key
enableControllerAttachDetach: false
makeIPTablesUtilChains: false
podCIDR: 10.88.0.0/24
evictionHard: {memory.available: "50Mi", nodefs.available: "1%", imagefs.available: "1%"}
imageGCHighThresholdPercent: 100
`,

	"@DIR@/kubeconfig": `apiVersion: v1
kind: Config
clusters: [{name: ring, cluster: {server: "https://127.0.0.1:6443", certificate-authority: "@DIR@/node.crt"}}]
users: [{name: admin, user: {token: ` + token + `}}]
contexts: [{name: ring, context: {cluster: ring, user: admin}}]
current-context: ring
`,

	"@DIR@/tokens.csv": token + ",admin,admin,system:masters\n",
}

// apiServer leaves out what no test here asks for and what takes long to begin.
func (n *node) apiServer() []string {
	at := func(name string) string { return filepath.Join(n.dir, name) }
	return []string{
		"--etcd-servers=http://127.0.0.1:2379", "--advertise-address=" + nodeAddress, "--cert-dir=" + at("apiserver"),
		"--tls-cert-file=" + at("node.crt"), "--tls-private-key-file=" + at("node.key"),
		"--service-account-issuer=https://sage.test", "--service-cluster-ip-range=10.96.0.0/24",
		"--service-account-key-file=" + at("node.pub"), "--service-account-signing-key-file=" + at("node.key"),
		"--token-auth-file=" + at("tokens.csv"), "--authorization-mode=AlwaysAllow",
		// What sage does with such a pod is the question.
		"--allow-privileged=true",
		// Nobody makes the account that it would want every pod to have.
		"--disable-admission-plugins=ServiceAccount",
		// There is no DNS that knows the node's name.
		"--kubelet-preferred-address-types=InternalIP",
		"--enable-priority-and-fairness=false", "--endpoint-reconciler-type=none", "--profiling=false",
	}
}

func (n *node) etcd() []string {
	return []string{
		"--data-dir=" + quotaMount + "/etcd", "--unsafe-no-fsync",
		"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
	}
}

func (n *node) kubelet() []string {
	return []string{
		"--config=" + filepath.Join(n.dir, "kubelet.yaml"), "--kubeconfig=" + filepath.Join(n.dir, "kubeconfig"),
		"--hostname-override=" + nodeName, "--node-ip=" + nodeAddress,
	}
}

func (n *node) writeFiles() error {
	fill := strings.NewReplacer("@DIR@", n.dir, "@CNI@", filepath.Join(n.cache, "peers", "bin", "cni"))
	var errs []error
	for path, text := range files {
		path = fill.Replace(path)
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(fill.Replace(text)), 0o644))
	}
	return errors.Join(errs...)
}
