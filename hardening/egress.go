package hardening

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/sage-sandbox/sage/hardening/seccomp"
	"github.com/sage-sandbox/sage/spec"
)

// The places in a container by which its programs find the proxy.
const (
	// SocketFolder holds egress.sock, and nothing else.
	SocketFolder = "/run/sage"
	ResolvConf   = "/etc/resolv.conf"
)

// EgressFacts are what a container with a proxy is to be given. The files are
// made after the hardening, below the container's state directory.
type EgressFacts struct {
	Folder     string // on the host, to be mounted at [SocketFolder]
	ResolvConf string // the same for [ResolvConf]
	// FolderAt and ResolvConfAt are where those places lead to in the image.
	FolderAt, ResolvConfAt string
	Port                   uint16 // of the proxy, on loopback
	// Own says that the network namespace is the container's own, for
	// [ApplyProcess]; [Apply] reads the bundle.
	Own bool
}

// Proxied tells of the modes in which the way out is a proxy.
func Proxied(m spec.NetworkMode) bool { return m == spec.NetworkAllowlist || m == spec.NetworkProxy }

// Transparent says why a container has no path for programs that know of no
// proxy, "" if it has one.
func Transparent(n spec.Network, own bool) string {
	switch {
	case !Proxied(n.Mode):
		return "there is no proxy in the mode " + string(n.Mode)
	case !n.Transparent:
		return "network.transparent is false"
	case !own:
		return "the network namespace is not the container's own, and others' programs would be led to it"
	}
	return ""
}

// egress mounts what leads to the proxy. It comes after every other mount, so
// that nothing of the bundle or of the image lies over it.
func (h *hardener) egress() error {
	if !Proxied(h.policy.Network.Mode) {
		return nil
	}
	f := h.facts.Egress
	if err := h.mountEgress(SocketFolder, f.FolderAt, f.Folder, "the way to the container's proxy"); err != nil {
		return err
	}
	if Transparent(h.policy.Network, f.Own) != "" {
		return nil
	}
	h.spec.Mounts = slices.DeleteFunc(h.spec.Mounts, func(m specs.Mount) bool {
		if m.Destination != f.ResolvConfAt {
			return false
		}
		h.drop("mounts", ResolvConf, "names are resolved by the container's proxy")
		return true
	})
	return h.mountEgress(ResolvConf, f.ResolvConfAt, f.ResolvConf, "its nameserver is the container's proxy")
}

func (h *hardener) mountEgress(at, leads, source, why string) error {
	switch {
	case !path.IsAbs(leads) || path.Clean(leads) != leads || !path.IsAbs(source):
		return denied("mounts", "nothing is known of where %s leads to", at)
	case leads == "/", within(leads, "/proc"), within(leads, "/sys"), within(leads, "/dev"):
		return denied("mounts", "saw %s lead to %q in the image, want a place for the container's proxy", at, leads)
	}
	o := options{bind: true, ro: true, nosuid: true, nodev: true, noexec: true}
	h.spec.Mounts = append(h.spec.Mounts, specs.Mount{Destination: leads, Type: "bind", Source: source, Options: o.list()})
	h.add("mounts", leads, why)
	return nil
}

// loopbackNames are not for the proxy where a program may listen on loopback
// (attacks.md 18); elsewhere it could reach nobody there.
const loopbackNames = "localhost,127.0.0.1,::1"

// proxyEnv are the variables by which programs find the proxy, as NAME=value.
func (h *processor) proxyEnv() []string {
	n := h.policy.Network
	if !Proxied(n.Mode) {
		return nil
	}
	direct, java := "", ""
	if h.facts.Egress.Own && listen(n.Listen) != seccomp.ListenDeny {
		direct, java = loopbackNames, "localhost|127.*|[::1]"
	}
	port := strconv.Itoa(int(h.facts.Egress.Port))
	var out []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		entry := "=http://127.0.0.1:" + port
		out = append(out, name+entry, strings.ToLower(name)+entry)
	}
	out = append(out, "NO_PROXY="+direct, "no_proxy="+direct, "NODE_USE_ENV_PROXY=1")
	if n.JavaToolOptions {
		out = append(out, javaOptions+"="+h.javaOptions()+javaProxy+port+(" -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort="+port+" -Dhttp.nonProxyHosts="+java))
	}
	return out
}

const (
	javaOptions = "JAVA_TOOL_OPTIONS"
	javaProxy   = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort="
)

// javaOptions keeps what the bundle has in that variable, which is mostly how
// much memory a JVM may take; of two of a kind, a JVM takes the last. What an
// earlier hardening has put behind it is left away.
func (h *processor) javaOptions() string {
	for _, entry := range slices.Backward(h.proc.Env) {
		had, ok := strings.CutPrefix(entry, javaOptions+"=")
		if !ok {
			continue
		}
		had, _, _ = strings.Cut(had, javaProxy)
		if had = strings.TrimSpace(had); had != "" {
			return had + " "
		}
		break
	}
	return ""
}
